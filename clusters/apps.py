from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ClustersConfig(AppConfig):
    name = "clusters"

    def ready(self) -> None:
        from clusters.consumers import FleetTopic
        from clusters.finder import find_deployments, find_workers
        from clusters.reconcilers import ClusterReconciler, DeploymentReconciler
        from clusters.selectors import VERSIONS_IN_USE, deployments_running
        from common import live
        from common.pages import search, subjects
        from common.reconcile import kernel
        from images import uses as images
        from models_registry.uses import register_uses

        kernel.register(DeploymentReconciler())
        kernel.register(ClusterReconciler())
        live.register(FleetTopic())
        subjects.offer("clusters.cluster", _("Cluster"), "/fleet/")
        subjects.offer("clusters.deployment", _("Deployment"), "/fleet/deployments/{name}/")
        register_uses(VERSIONS_IN_USE)
        images.register_use_check(deployments_running)
        search.offer("Workers", find_workers)
        search.offer("Deployments", find_deployments)
