from rest_framework.routers import SimpleRouter

from optimization.api import views

router = SimpleRouter(use_regex_path=False)
router.register("optimizations", views.Optimizations, basename="optimization")

urlpatterns = router.urls
