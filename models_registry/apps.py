from django.apps import AppConfig


class ModelsRegistryConfig(AppConfig):
    name = "models_registry"
    verbose_name = "Models"

    def ready(self) -> None:
        from common.pages import search
        from common.reconcile import kernel
        from models_registry.finder import find_models
        from models_registry.reconcilers import VersionReconciler

        kernel.register(VersionReconciler())
        search.offer("Models", find_models)
