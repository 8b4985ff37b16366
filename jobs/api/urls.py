from rest_framework.routers import SimpleRouter

from jobs.api import views

router = SimpleRouter(use_regex_path=False)
router.register("jobs", views.ServiceJobs, basename="job")

urlpatterns = router.urls
