from rest_framework.routers import SimpleRouter

from images.api import views

router = SimpleRouter(use_regex_path=False)
router.register("images", views.Images, basename="image")

urlpatterns = router.urls
