from django.apps import AppConfig


class ReleasesConfig(AppConfig):
    name = "releases"

    def ready(self) -> None:
        from models_registry.uses import register_use_check

        from common.reconcile import kernel
        from releases.reconcilers import ReleaseReconciler
        from releases.selectors import versions_in_use

        kernel.register(ReleaseReconciler())
        register_use_check(versions_in_use)
