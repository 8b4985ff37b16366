"""What can go wrong in the registry. Every message is a sentence for the person who asked."""


class RegistryError(Exception):
    """Anything the registry refuses or fails at."""


class InvalidName(RegistryError):
    """A name of a model, version or alias, or a path inside a version, breaks the rules."""


class NameTaken(RegistryError):
    """There is such a model, version or alias already."""


class InvalidField(RegistryError):
    """A described value is too long, of the wrong kind, or not known."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class SourceNotAllowed(RegistryError):
    """The source of an import is of a kind, or in a place, that this server does not read."""


class SourceUnreadable(RegistryError):
    """The source cannot be read: gone, not a directory, no permission, an I/O error."""


class SourceChanged(RegistryError):
    """A file changed while it was being copied."""


class Refused(RegistryError):
    """A file or directory entry that must not enter the registry, and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class StoreFull(RegistryError):
    """The store has too little space. `missing_bytes` more would do."""

    def __init__(self, *, needed_bytes: int, free_bytes: int) -> None:
        self.needed_bytes = needed_bytes
        self.free_bytes = free_bytes
        self.missing_bytes = max(0, needed_bytes - free_bytes)
        super().__init__(
            f"The model store is full: {self.missing_bytes:,} bytes are missing "
            f"({needed_bytes:,} needed, {free_bytes:,} free). Free space on its disk, then retry."
        )


class BlobMissing(RegistryError):
    """The store lacks a blob that a version needs, or holds it with another size."""


class IntakeBusy(RegistryError):
    """Another process is writing this intake right now."""


class Interrupted(RegistryError):
    """The import was told to stop: its wish is gone or its stack has ended."""


class Frozen(RegistryError):
    """A ready version never changes."""


class InUse(RegistryError):
    """It cannot be deleted: aliases, deployments or other versions still need it."""


class AliasMoved(RegistryError):
    """Somebody moved the alias between reading and writing."""


class WrongState(RegistryError):
    """The version's state does not allow this."""


class NotFound(RegistryError):
    """There is no such model, version or alias that this actor may see."""
