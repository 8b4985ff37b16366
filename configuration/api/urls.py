from rest_framework.routers import SimpleRouter

from configuration.api.views import Configuration

router = SimpleRouter(use_regex_path=False)
router.register("configuration", Configuration, basename="configuration")

urlpatterns = router.urls
