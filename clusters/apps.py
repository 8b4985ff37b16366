from django.apps import AppConfig


class ClustersConfig(AppConfig):
    name = "clusters"

    def ready(self) -> None:
        from clusters.consumers import FleetTopic
        from clusters.reconcilers import ClusterReconciler, DeploymentReconciler
        from clusters.selectors import deployments_running, versions_in_use
        from common import live
        from common.reconcile import kernel
        from images import uses as images
        from models_registry.uses import register_use_check

        kernel.register(DeploymentReconciler())
        kernel.register(ClusterReconciler())
        live.register(FleetTopic())
        register_use_check(versions_in_use)
        images.register_use_check(deployments_running)
