from django.urls import include, path

from identity.views import service_accounts, sign_on

urlpatterns = [
    path("accounts/", include("identity.sign_on_urls")),
    path("scim/v2/", include("identity.scim.urls")),
    path("settings/sign-on/", sign_on.overview, name="sign-on"),
    path("settings/sign-on/+new/", sign_on.new_rule, name="new-group-rule"),
    path("settings/sign-on/<int:pk>/", sign_on.rule, name="group-rule"),
    path("settings/service-accounts/", service_accounts.account_list, name="service-accounts"),
    path("settings/service-accounts/+new/", service_accounts.new_account, name="new-service-account"),
    path("settings/service-accounts/<str:username>/", service_accounts.account, name="service-account"),
    path(
        "settings/service-accounts/<str:username>/credentials/<int:pk>/delete/",
        service_accounts.delete_credential,
        name="delete-credential",
    ),
    path("settings/sign-on/<int:pk>/delete/", sign_on.delete_rule, name="delete-group-rule"),
]
