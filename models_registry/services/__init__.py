"""Every write to the registry."""

from models_registry.services.aliases import delete_alias, set_alias
from models_registry.services.archiving import archive_version, restore_version, tag_version
from models_registry.services.catalogue import change_model, create_model, delete_model
from models_registry.services.evaluations import Measured, evaluate_version
from models_registry.services.exemptions import end_exemption, exempt_code
from models_registry.services.imports import cancel_import, import_version, retry_import
from models_registry.services.retention import (
    apply_retention,
    delete_retention,
    set_retention,
    stop_retention,
)
from models_registry.services.signature_verification import verify_signatures
from models_registry.services.uploads import begin_upload, cancel_upload, complete_upload, take_parts
from models_registry.services.versions import delete_version

__all__ = [
    "Measured",
    "apply_retention",
    "archive_version",
    "begin_upload",
    "cancel_import",
    "cancel_upload",
    "change_model",
    "complete_upload",
    "create_model",
    "delete_alias",
    "delete_model",
    "delete_retention",
    "delete_version",
    "end_exemption",
    "evaluate_version",
    "exempt_code",
    "import_version",
    "restore_version",
    "retry_import",
    "set_alias",
    "set_retention",
    "stop_retention",
    "tag_version",
    "take_parts",
    "verify_signatures",
]
