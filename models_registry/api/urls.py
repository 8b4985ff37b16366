from django.urls import path
from rest_framework.routers import SimpleRouter

from models_registry.api import hubs, views

router = SimpleRouter(use_regex_path=False)
router.register("models", views.Models, basename="model")
router.register("models/<str:model>/versions", views.Versions, basename="version")
router.register("models/<str:model>/aliases", views.Aliases, basename="alias")
router.register("hub-sources", hubs.HubSources, basename="hub-source")
router.register("hub-syncs", hubs.HubSyncs, basename="hub-sync")

urlpatterns = [
    path("models/<str:model>/history/", views.ModelHistory.as_view({"get": "list"}), name="model-history"),
    path(
        "models/<str:model>/aliases/<str:alias>/history/",
        views.AliasHistory.as_view({"get": "list"}),
        name="alias-history",
    ),
    *router.urls,
]
