from django.urls import path
from rest_framework.routers import SimpleRouter

from gpu_health.api import views
from gpu_health.api.checks import GpuChecks
from gpu_health.api.drills import GpuDrills
from gpu_health.api.events import ProviderEvents, SnsMessages
from gpu_health.api.gpu_counts import GpuCounts
from gpu_health.api.healing import Healing, HealingPools, Incidents, Remediations
from gpu_health.api.statistics import Prices, Statistics

router = SimpleRouter(use_regex_path=False)
router.register("gpu-health/findings", views.Findings, basename="gpu-finding")
router.register("gpu-health/rules", views.GpuRules, basename="gpu-rule")
router.register("gpu-health/checks", GpuChecks, basename="gpu-check")
router.register("gpu-health/counts", GpuCounts, basename="gpu-count")
router.register("gpu-health/drills", GpuDrills, basename="gpu-drill")
router.register("gpu-health/readings", views.Readings, basename="gpu-reading")
router.register("gpu-health/incidents", Incidents, basename="gpu-incident")
router.register("gpu-health/remediations", Remediations, basename="gpu-remediation")
router.register("gpu-health/healing", Healing, basename="gpu-healing")
router.register("gpu-health/pools", HealingPools, basename="gpu-pool")
router.register("gpu-health/statistics", Statistics, basename="gpu-statistics")
router.register("gpu-health/prices", Prices, basename="gpu-prices")

urlpatterns = [
    *router.urls,
    path("gpu-health/events/", ProviderEvents.as_view()),
    path("gpu-health/events/sns/", SnsMessages.as_view()),
]
