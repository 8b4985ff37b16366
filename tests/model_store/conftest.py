"""The cast of the registry."""

from tests.models_registry.conftest import (
    _registry_alone,
    actor,
    ada,
    admin,
    api,
    browser,
    chat,
    hubs,
    jobs,
    library,
    model,
    source,
    store,
    version,
)

__all__ = [
    "_registry_alone",
    "actor",
    "ada",
    "admin",
    "api",
    "browser",
    "chat",
    "hubs",
    "jobs",
    "library",
    "model",
    "source",
    "store",
    "version",
]
