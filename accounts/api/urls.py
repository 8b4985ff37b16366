from django.urls import path
from rest_framework.routers import SimpleRouter

from accounts.api import audit, stuck, views, webhooks

router = SimpleRouter(use_regex_path=False)
router.register("people", views.People, basename="person")
router.register("teams", views.Teams, basename="team")
router.register("teams/<str:team>/members", views.Members, basename="member")
router.register("tokens", views.Tokens, basename="token")
router.register("webhooks", webhooks.Webhooks, basename="webhook")
router.register("webhooks/<int:webhook>/deliveries", webhooks.Deliveries, basename="webhook-delivery")

urlpatterns = [
    path("me/", views.Me.as_view({"get": "show"}), name="me"),
    path("audit/", audit.AuditTrail.as_view({"get": "list"}), name="audit-list"),
    path("audit/verify/", audit.AuditVerdict.as_view({"get": "show"}), name="audit-verify"),
    path("stuck/", stuck.StuckRows.as_view({"get": "show"}), name="stuck-list"),
    path("stuck/<str:kind>/<int:id>/retry/", stuck.StuckRows.as_view({"post": "retry"}), name="stuck-retry"),
    path(
        "stuck/<str:kind>/<int:id>/answer/", stuck.StuckRows.as_view({"post": "reply"}), name="stuck-answer"
    ),
    *router.urls,
]
