from django.urls import path
from rest_framework.routers import SimpleRouter

from clusters.api import views
from clusters.api.drains import Drains
from clusters.api.heartbeats import Heartbeats
from clusters.api.live_workers import LiveWorkers
from clusters.api.model_files import DeployedVersionFile, DeployedVersionFiles
from clusters.api.node_reports import NodeReports
from clusters.api.relay_reports import RelayReports

router = SimpleRouter(use_regex_path=False)
router.register("clusters", views.Clusters, basename="cluster")
router.register("clusters/<str:cluster>/nodes", views.Nodes, basename="node")
router.register("clusters/<str:cluster>/drains", Drains, basename="drain")
router.register("deployments", views.Deployments, basename="deployment")

urlpatterns = [
    path("heartbeats/", Heartbeats.as_view(), name="heartbeats"),
    path("relay-reports/", RelayReports.as_view(), name="relay-reports"),
    path("node-reports/", NodeReports.as_view(), name="node-reports"),
    path("model-files/<int:version>/", DeployedVersionFiles.as_view({"get": "retrieve"}), name="model-files"),
    path(
        "model-files/<int:version>/<str:sha256>/",
        DeployedVersionFile.as_view({"get": "retrieve"}),
        name="model-file",
    ),
    path("workers/", LiveWorkers.as_view({"get": "show"}), name="live-workers"),
    path("workers/<str:worker>/log/", views.WorkerLogs.as_view({"get": "show"}), name="worker-log"),
    *router.urls,
]
