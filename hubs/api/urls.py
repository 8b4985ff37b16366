from django.urls import path
from rest_framework.routers import SimpleRouter

from hubs.api import exports, places, sources, syncs

router = SimpleRouter(use_regex_path=False)
router.register("exports", exports.Exports, basename="export")
router.register("hub-sources", sources.HubSources, basename="hub-source")
router.register("hub-syncs", syncs.HubSyncs, basename="hub-sync")

urlpatterns = [
    path("import-places/", places.SHOWN, name="import-places"),
    *router.urls,
]
