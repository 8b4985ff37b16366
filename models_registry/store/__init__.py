"""Where the bytes of versions live: content-addressed, each content once, published whole or not at all.

No Django in here: the importer, which reads what nobody trusts, runs without it.
"""

from models_registry.store.base import PARTS, Intake, Reclaimed, Store, Taken
from models_registry.store.local import LocalStore

__all__ = ["PARTS", "Intake", "LocalStore", "Reclaimed", "Store", "Taken"]
