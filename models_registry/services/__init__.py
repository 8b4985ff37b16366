"""Every write to the registry."""

from models_registry.services.aliases import delete_alias, set_alias
from models_registry.services.catalogue import change_model, create_model, delete_model
from models_registry.services.versions import (
    cancel_import,
    delete_version,
    import_version,
    retry_import,
)

__all__ = [
    "cancel_import",
    "change_model",
    "create_model",
    "delete_alias",
    "delete_model",
    "delete_version",
    "import_version",
    "retry_import",
    "set_alias",
]
