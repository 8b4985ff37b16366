from rest_framework.routers import SimpleRouter

from objectives.api.views import Objectives

router = SimpleRouter(use_regex_path=False)
router.register("objectives", Objectives, basename="objective")

urlpatterns = router.urls
