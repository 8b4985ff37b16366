from django.urls import path
from rest_framework.routers import SimpleRouter

from alerts.api import alertmanager, views

router = SimpleRouter(use_regex_path=False)
router.register("alerts", views.Alerts, basename="alert")
router.register("alert-silences", views.AlertSilences, basename="alert-silence")
router.register("alert-checks", views.AlertChecks, basename="alert-check")

V2 = "alertmanager/api/v2"
urlpatterns = [
    *router.urls,
    path("alertmanager/webhook/", alertmanager.AlertmanagerWebhook.as_view()),
    path(f"{V2}/alerts/", alertmanager.AlertmanagerAlerts.as_view()),
    path(f"{V2}/silences/", alertmanager.AlertmanagerSilences.as_view()),
    path(f"{V2}/silence/<int:pk>/", alertmanager.AlertmanagerSilence.as_view()),
]
