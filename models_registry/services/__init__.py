"""Every write to the registry."""

from models_registry.services.aliases import delete_alias, set_alias
from models_registry.services.catalogue import change_model, create_model, delete_model
from models_registry.services.evaluations import Measured, evaluate_version
from models_registry.services.exemptions import end_exemption, exempt_code
from models_registry.services.exports import (
    cancel_export,
    pause_export,
    resume_export,
    retry_export,
    start_export,
)
from models_registry.services.hub_notices import new_notice_secret, take_notice
from models_registry.services.hubs import (
    cancel_sync,
    change_hub_source,
    create_hub_source,
    delete_hub_source,
    forget_hub_sources,
    pause_sync,
    resume_sync,
    retry_sync,
    start_sync,
)
from models_registry.services.quotas import set_quota
from models_registry.services.retention import (
    apply_retention,
    delete_retention,
    set_retention,
    stop_retention,
)
from models_registry.services.shelving import archive_version, restore_version, tag_version
from models_registry.services.signature_verification import verify_signatures
from models_registry.services.signatures import demand_signatures, distrust_key, trust_key
from models_registry.services.storage import retry_repair, start_check, start_collection
from models_registry.services.uploads import begin_upload, cancel_upload, complete_upload, take_parts
from models_registry.services.versions import (
    cancel_import,
    delete_version,
    import_version,
    retry_import,
)

__all__ = [
    "Measured",
    "apply_retention",
    "archive_version",
    "begin_upload",
    "cancel_export",
    "cancel_import",
    "cancel_sync",
    "cancel_upload",
    "change_hub_source",
    "change_model",
    "complete_upload",
    "create_hub_source",
    "create_model",
    "delete_alias",
    "delete_hub_source",
    "delete_model",
    "delete_retention",
    "delete_version",
    "demand_signatures",
    "distrust_key",
    "end_exemption",
    "evaluate_version",
    "exempt_code",
    "forget_hub_sources",
    "import_version",
    "new_notice_secret",
    "pause_export",
    "pause_sync",
    "restore_version",
    "resume_export",
    "resume_sync",
    "retry_export",
    "retry_import",
    "retry_repair",
    "retry_sync",
    "set_alias",
    "set_quota",
    "set_retention",
    "start_check",
    "start_collection",
    "start_export",
    "start_sync",
    "stop_retention",
    "tag_version",
    "take_notice",
    "take_parts",
    "trust_key",
    "verify_signatures",
]
