from rest_framework.routers import SimpleRouter

from freezes.api.views import Freezes

router = SimpleRouter(use_regex_path=False)
router.register("freezes", Freezes, basename="freeze")

urlpatterns = router.urls
