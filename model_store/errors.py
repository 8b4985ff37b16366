"""Errors of the store. Every message is a sentence for the person who asked."""

from typing import ClassVar

from common.errors import Conflict, Invalid, Missing, SlipwayError, Unavailable


class RunUnderWay(Conflict):
    """The same is being done already."""


class StorageQuotaExceeded(Conflict):
    """The team would hold more than its quota allows."""

    cause: ClassVar[str] = "quota"

    def __init__(self, *, team: str, new_bytes: int, used_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"Team {team} may hold {limit_bytes:,} bytes. It holds {used_bytes:,}, uploads under way "
            f"included, and this adds {new_bytes:,}: {used_bytes + new_bytes - limit_bytes:,} too many. "
            "Delete versions that it does not need, or ask an administrator of the installation for more."
        )


class PartRefused(Invalid):
    """The body is not the part that its headers announce."""

    def __init__(self, sentence: str) -> None:
        super().__init__(fields={"body": [sentence]})


class ContentDiffers(Conflict):
    """All of a content has come, and it is not what was announced: it begins anew."""


class UnknownUpload(Missing):
    """The model has no such upload, or none with such a content."""


class FileRefused(SlipwayError):
    """A file or directory entry that must not enter the registry, and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class SourceChanged(SlipwayError):
    """A file changed while it was being copied."""


class StoreFull(SlipwayError):
    """The store has too little space. `missing_bytes` more would do."""

    cause: ClassVar[str] = "store_full"

    def __init__(self, *, needed_bytes: int, free_bytes: int) -> None:
        self.needed_bytes = needed_bytes
        self.missing_bytes = max(0, needed_bytes - free_bytes)
        super().__init__(
            f"The model store is full: {self.missing_bytes:,} bytes are missing "
            f"({needed_bytes:,} needed, {free_bytes:,} free). Free space on its disk."
        )


class StoreUnavailable(Unavailable):
    """The store cannot be reached, or refuses what it is asked; the message says what to look at."""


class BlobMissing(SlipwayError):
    """The store lacks a blob that a version needs, or holds it with another size."""


class CheckFailed(SlipwayError):
    """The process that reads the store does not come to its end."""


class StagingBusy(SlipwayError):
    """Another process is writing this staging area right now."""


class WrongRunState(Conflict):
    """Its state does not allow this."""
