from django.urls import path
from rest_framework.routers import SimpleRouter

from gateway.api.views import CLIENT_ACCESS, GATEWAY, Abilities, ClientKeys

router = SimpleRouter(use_regex_path=False)
router.register("abilities", Abilities, basename="ability")
router.register("client-keys", ClientKeys, basename="client-key")

urlpatterns = [
    path("services/<str:service>/client-access/", CLIENT_ACCESS, name="client-access"),
    path("clusters/<str:cluster>/gateway/", GATEWAY, name="gateway"),
    *router.urls,
]
