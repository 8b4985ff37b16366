from django.urls import path
from rest_framework.routers import SimpleRouter

from gateway.api.views import GATEWAY, Abilities

router = SimpleRouter(use_regex_path=False)
router.register("abilities", Abilities, basename="ability")

urlpatterns = [path("clusters/<str:cluster>/gateway/", GATEWAY, name="gateway"), *router.urls]
