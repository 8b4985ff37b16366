from rest_framework.routers import SimpleRouter

from benchmarks.api import views

router = SimpleRouter(use_regex_path=False)
router.register("benchmarks", views.Benchmarks, basename="benchmark")

urlpatterns = router.urls
