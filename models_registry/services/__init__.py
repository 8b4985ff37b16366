"""Every write to the registry."""

from models_registry.services.aliases import delete_alias, set_alias
from models_registry.services.catalogue import change_model, create_model, delete_model
from models_registry.services.hub_notices import new_notice_secret, take_notice
from models_registry.services.hubs import (
    cancel_sync,
    change_hub_source,
    create_hub_source,
    delete_hub_source,
    pause_sync,
    resume_sync,
    retry_sync,
    start_sync,
)
from models_registry.services.shelving import archive_version, restore_version, tag_version
from models_registry.services.versions import (
    cancel_import,
    delete_version,
    import_version,
    retry_import,
)

__all__ = [
    "archive_version",
    "cancel_import",
    "cancel_sync",
    "change_hub_source",
    "change_model",
    "create_hub_source",
    "create_model",
    "delete_alias",
    "delete_hub_source",
    "delete_model",
    "delete_version",
    "import_version",
    "new_notice_secret",
    "pause_sync",
    "restore_version",
    "resume_sync",
    "retry_import",
    "retry_sync",
    "set_alias",
    "start_sync",
    "tag_version",
    "take_notice",
]
