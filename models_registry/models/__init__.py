"""Facts are frozen, pointers move: versions never change, aliases do and remember it."""

from models_registry.models.aliases import Alias, AliasMove
from models_registry.models.catalogue import Model
from models_registry.models.hubs import HubSource, HubSync
from models_registry.models.versions import FROZEN_FIELDS, Version, VersionFile, VersionMove, VersionTag

__all__ = [
    "FROZEN_FIELDS",
    "Alias",
    "AliasMove",
    "HubSource",
    "HubSync",
    "Model",
    "Version",
    "VersionFile",
    "VersionMove",
    "VersionTag",
]
