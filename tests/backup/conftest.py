"""The cast of the registry: a version is what a backup is about."""

from tests.models_registry.conftest import _registry_alone, actor, ada, library, model, version

__all__ = ["_registry_alone", "actor", "ada", "library", "model", "version"]
