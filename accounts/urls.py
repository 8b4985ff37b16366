"""The audit record, what is stuck, and the settings; `accounts.sign_in_urls` holds signing in."""

from django.urls import include, path
from django.views.generic import RedirectView

from accounts.views import account, audit, people, stuck, teams, tokens, webhooks

urlpatterns = [
    path("accounts/", include("accounts.sign_in_urls")),
    path("audit/", audit.audit_page, name="audit"),
    path("audit/verify/", audit.verify, name="verify-audit"),
    path("audit/export.csv", audit.export, {"kind": "csv"}, name="audit-csv"),
    path("audit/export.json", audit.export, {"kind": "json"}, name="audit-json"),
    path("stuck/<str:kind>/<int:pk>/retry/", stuck.retry, name="retry-stuck"),
    path("stuck/<str:kind>/<int:pk>/answer/", stuck.answer, name="answer-stuck"),
    path("settings/", RedirectView.as_view(url="/settings/account/"), name="settings"),
    path("settings/account/", account.account, name="account"),
    path("settings/tokens/", tokens.token_list, name="tokens"),
    path("settings/tokens/+new/", tokens.new_token, name="new-token"),
    path("settings/tokens/<int:pk>/revoke/", tokens.revoke, name="revoke-token"),
    path("settings/people/", people.people_list, name="people"),
    path("settings/people/+new/", people.new_person, name="new-person"),
    path("settings/people/<str:username>/", people.person, name="person"),
    path("settings/people/<str:username>/password/", people.password, name="person-password"),
    path("settings/people/<str:username>/active/", people.activate, name="person-active"),
    path("settings/teams/", teams.team_list, name="teams"),
    path("settings/teams/+new/", teams.new_team, name="new-team"),
    path("settings/teams/<str:name>/", teams.team, name="team"),
    path("settings/teams/<str:name>/members/", teams.set_member, name="set-member"),
    path(
        "settings/teams/<str:name>/members/<str:username>/remove/",
        teams.remove_member,
        name="remove-member",
    ),
    path("settings/teams/<str:name>/delete/", teams.delete_team, name="delete-team"),
    path("settings/webhooks/", webhooks.webhook_list, name="webhooks"),
    path("settings/webhooks/+new/", webhooks.new_webhook, name="new-webhook"),
    path("settings/webhooks/+own/", webhooks.new_own_webhook, name="new-own-webhook"),
    path("settings/webhooks/<int:pk>/", webhooks.webhook, name="webhook"),
    path("settings/webhooks/<int:pk>/test/", webhooks.test, name="test-webhook"),
    path("settings/webhooks/<int:pk>/rotate/", webhooks.rotate, name="rotate-webhook"),
    path("settings/webhooks/<int:pk>/enabled/", webhooks.enable, name="enable-webhook"),
    path("settings/webhooks/<int:pk>/delete/", webhooks.delete, name="delete-webhook"),
    path(
        "settings/webhooks/<int:pk>/deliveries/<int:delivery_pk>/",
        webhooks.delivery,
        name="webhook-delivery-page",
    ),
    path(
        "settings/webhooks/<int:pk>/deliveries/<int:delivery_pk>/replay/",
        webhooks.replay,
        name="replay-delivery",
    ),
]
