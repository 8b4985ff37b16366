"""Facts are frozen, pointers move: versions never change, aliases do and remember it."""

from models_registry.models.aliases import Alias, AliasMove
from models_registry.models.catalogue import Model
from models_registry.models.evaluations import Evaluation
from models_registry.models.exemptions import CodeExemption
from models_registry.models.retention import RetentionRule
from models_registry.models.signatures import VersionSignature
from models_registry.models.uploads import Upload, UploadContent
from models_registry.models.versions import FROZEN_FIELDS, Version, VersionFile, VersionMove, VersionTag

__all__ = [
    "FROZEN_FIELDS",
    "Alias",
    "AliasMove",
    "CodeExemption",
    "Evaluation",
    "Model",
    "RetentionRule",
    "Upload",
    "UploadContent",
    "Version",
    "VersionFile",
    "VersionMove",
    "VersionSignature",
    "VersionTag",
]
