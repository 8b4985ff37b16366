"""Where the bytes of versions live: content-addressed, each content once, published whole or not at all."""

from pathlib import Path

from django.conf import settings

from models_registry.store.base import Intake, Reclaimed, Store, Taken
from models_registry.store.local import LocalStore

__all__ = ["Intake", "LocalStore", "Reclaimed", "Store", "Taken", "store"]


def store() -> Store:
    """The store of this installation."""
    return LocalStore(Path(settings.SLIPWAY_STORE_DIR))
