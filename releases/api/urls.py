from rest_framework.routers import SimpleRouter

from releases.api import views

router = SimpleRouter(use_regex_path=False)
router.register("services", views.Services, basename="service")
router.register("releases", views.Releases, basename="release")
router.register("release-policies", views.TeamPolicies, basename="release-policy")
router.register("plans", views.PlanCollection, basename="plan")

urlpatterns = router.urls
