from django.apps import AppConfig


class ModelsRegistryConfig(AppConfig):
    name = "models_registry"
    verbose_name = "Models"

    def ready(self) -> None:
        from common.pages import search
        from common.reconcile import kernel
        from models_registry.finder import find_models
        from models_registry.reconcilers import VersionReconciler
        from models_registry.syncing import HubSourceReconciler, HubSyncReconciler

        kernel.register(VersionReconciler())
        kernel.register(HubSourceReconciler())
        kernel.register(HubSyncReconciler())
        search.offer("Models", find_models)
