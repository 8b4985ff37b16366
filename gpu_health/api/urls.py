from rest_framework.routers import SimpleRouter

from gpu_health.api import views

router = SimpleRouter(use_regex_path=False)
router.register("gpu-health/findings", views.Findings, basename="gpu-finding")
router.register("gpu-health/rules", views.GpuRules, basename="gpu-rule")
router.register("gpu-health/readings", views.Readings, basename="gpu-reading")

urlpatterns = router.urls
