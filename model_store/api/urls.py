from django.urls import path
from rest_framework.routers import SimpleRouter

from model_store.api import quotas, store

router = SimpleRouter(use_regex_path=False)
router.register("store/collections", store.Collections, basename="collection")
router.register("store/checks", store.Checks, basename="store-check")
router.register("store/findings", store.CorruptBlobFindings, basename="finding")

urlpatterns = [
    path("teams/<str:team>/storage/", quotas.ONE, name="team-storage"),
    path("store/teams/", quotas.ALL, name="storages"),
    path("store/", store.StoreState.as_view({"get": "show"}), name="store"),
    *router.urls,
]
