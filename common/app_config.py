"""The start of every app: it hands over what it adds to the whole, and nothing else."""

from importlib import import_module

from django.apps import AppConfig


class WithManifest(AppConfig):
    """Used as `app_config.WithManifest`: Django takes a class that `apps.py` imports for the app's own."""

    def ready(self) -> None:
        # Here: manifests name models, which Django loads before.
        from common.declared import declare

        declare(import_module(f"{self.name}.manifest").MANIFEST)
