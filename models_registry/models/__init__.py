"""Facts are frozen, pointers move: versions never change, aliases do and remember it."""

from models_registry.models.aliases import Alias, AliasMove
from models_registry.models.catalogue import Model
from models_registry.models.evaluations import Evaluation
from models_registry.models.exemptions import CodeExemption
from models_registry.models.exports import Export
from models_registry.models.hubs import HubSource, HubSync
from models_registry.models.retention import RetentionRule
from models_registry.models.signatures import SignaturePolicy, TrustedKey, VersionSignature
from models_registry.models.storage import Check, Collection, Finding, StoreKeeper, StoreRun, UnreferencedBlob
from models_registry.models.uploads import StorageQuota, Upload, UploadContent
from models_registry.models.versions import FROZEN_FIELDS, Version, VersionFile, VersionMove, VersionTag

__all__ = [
    "FROZEN_FIELDS",
    "Alias",
    "AliasMove",
    "Check",
    "CodeExemption",
    "Collection",
    "Evaluation",
    "Export",
    "Finding",
    "HubSource",
    "HubSync",
    "Model",
    "RetentionRule",
    "SignaturePolicy",
    "StorageQuota",
    "StoreKeeper",
    "StoreRun",
    "TrustedKey",
    "UnreferencedBlob",
    "Upload",
    "UploadContent",
    "Version",
    "VersionFile",
    "VersionMove",
    "VersionSignature",
    "VersionTag",
]
