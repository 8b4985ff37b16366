from django.urls import path
from rest_framework.routers import SimpleRouter

from alerts.api import alertmanager, views

router = SimpleRouter(use_regex_path=False)
router.register("alerts", views.Alerts, basename="alert")
router.register("alert-groups", views.AlertGroups, basename="alert-group")
router.register("alert-silences", views.AlertSilences, basename="alert-silence")
router.register("alert-checks", views.AlertChecks, basename="alert-check")

V2 = "alertmanager/api/v2"
urlpatterns = [
    *router.urls,
    path("alertmanager/webhook/", alertmanager.AlertmanagerWebhook.as_view()),
    # Alertmanager's own addresses have no slash at their end, and its clients follow no redirect of a POST.
    *(
        path(f"{V2}/{address}{end}", view.as_view())
        for address, view in (
            ("alerts", alertmanager.AlertmanagerAlerts),
            ("silences", alertmanager.AlertmanagerSilences),
            ("silence/<int:pk>", alertmanager.AlertmanagerSilence),
            ("status", alertmanager.AlertmanagerStatus),
        )
        for end in ("", "/")
    ),
]
