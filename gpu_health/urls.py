from django.urls import path

from gpu_health import check_views as checks
from gpu_health import drill_views as drills
from gpu_health import healing_views as healing
from gpu_health import limits_views as limits
from gpu_health import rule_views as rules
from gpu_health import statistics_views as statistics
from gpu_health import views

urlpatterns = [
    path("gpu-health/", views.finding_list, name="gpu-findings"),
    path("gpu-health/findings/<int:pk>/", views.finding_page, name="gpu-finding"),
    path("gpu-health/findings/<int:pk>/+close/", views.close, name="close-gpu-finding"),
    path("gpu-health/incidents/", healing.incident_list, name="gpu-incidents"),
    path("gpu-health/incidents/<int:pk>/", healing.incident_page, name="gpu-incident"),
    path("gpu-health/incidents/<int:pk>/rma.zip", healing.rma, name="gpu-incident-rma"),
    path("gpu-health/incidents/<int:pk>/+approve/", healing.approve, name="approve-gpu-incident"),
    path("gpu-health/incidents/<int:pk>/+approve-domain/", healing.approve_domain, name="approve-gpu-domain"),
    path("gpu-health/incidents/<int:pk>/+cordon-domain/", healing.cordon_domain, name="cordon-gpu-domain"),
    path("gpu-health/incidents/<int:pk>/+hold/", healing.hold, name="hold-gpu-incident"),
    path("gpu-health/incidents/<int:pk>/+resume/", healing.resume, name="resume-gpu-incident"),
    path("gpu-health/incidents/<int:pk>/+cancel/<str:how>/", healing.cancel, name="cancel-gpu-incident"),
    path("gpu-health/incidents/<int:pk>/+verify/", healing.verify, name="verify-gpu-incident"),
    path("gpu-health/+notice/", healing.notice, name="gpu-healing-notice"),
    path("gpu-health/+stop/", healing.stop, name="stop-gpu-healing"),
    path("gpu-health/+restart/", healing.restart, name="restart-gpu-healing"),
    path("gpu-health/+mode/<str:mode>/", healing.set_mode, name="set-gpu-healing-mode"),
    path("gpu-health/pools/<int:pk>/+close/<str:backlog>/", healing.close_breaker, name="close-gpu-breaker"),
    path("gpu-health/checks/", checks.check_list, name="gpu-checks"),
    path("gpu-health/checks/+order/", checks.order, name="order-gpu-check"),
    path("gpu-health/checks/<int:pk>/", checks.check_page, name="gpu-check"),
    path("gpu-health/checks/<int:pk>/+cancel/", checks.cancel, name="cancel-gpu-check"),
    path("gpu-health/limits/", limits.limits_page, name="gpu-limits"),
    path("gpu-health/statistics/", statistics.statistics_page, name="gpu-statistics"),
    path("gpu-health/statistics/export.csv", statistics.export, name="export-gpu-statistics"),
    path("gpu-health/statistics/prices/", statistics.prices_page, name="gpu-prices"),
    path("gpu-health/drills/", drills.drill_list, name="gpu-drills"),
    path("gpu-health/drills/+order/", drills.order, name="order-gpu-drill"),
    path("gpu-health/drills/<int:pk>/", drills.drill_page, name="gpu-drill"),
    path("gpu-health/drills/<int:pk>/+cancel/", drills.cancel, name="cancel-gpu-drill"),
    path(
        "gpu-health/drills/clusters/<str:name>/+mark/<str:how>/", drills.mark, name="mark-gpu-drill-cluster"
    ),
    path("gpu-health/rules/", rules.rule_list, name="gpu-rules"),
    path("gpu-health/rules/+new/", rules.new_rule, name="new-gpu-rule"),
    path("gpu-health/rules/<str:name>/", rules.rule_page, name="gpu-rule"),
    path("gpu-health/rules/<str:name>/+reset/", rules.reset, name="reset-gpu-rule"),
    path("gpu-health/presets/", rules.preset_page, name="gpu-presets"),
    path("gpu-health/disagreements/", rules.disagreement_list, name="gpu-disagreements"),
]
