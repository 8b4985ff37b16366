from django.apps import AppConfig


class ModelsRegistryConfig(AppConfig):
    name = "models_registry"
    verbose_name = "Models"

    def ready(self) -> None:
        from common.reconcile import kernel
        from models_registry.reconcilers import VersionReconciler

        kernel.register(VersionReconciler())
