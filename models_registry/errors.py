"""What can go wrong in the registry. Every message is a sentence for the person who asked."""

from typing import ClassVar

from common.errors import Conflict, Invalid, Missing, SlipwayError, Unavailable


class InvalidName(Invalid):
    """A name of a model, version or alias breaks the rules."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(fields={field: [sentence]})


class SourceNotAllowed(Invalid):
    """The source of an import is of a kind, or in a place, that this server does not read."""

    def __init__(self, sentence: str) -> None:
        super().__init__(fields={"source": [sentence]})


class SourceTaken(Conflict):
    """The model has a source of this repository already, or a sync of it that runs."""


class NameTaken(Conflict):
    """There is such a model or version already."""


class InUse(Conflict):
    """It cannot be deleted: aliases, deployments or other versions still need it."""


class WrongState(Conflict):
    """The version's state does not allow this."""


class CodeNotAllowed(Conflict):
    """The version carries code, and no exemption of its team lets it be served."""


class SignatureNotTrusted(Conflict):
    """The team requires a signature by a key that it trusts, and the version has none."""


class Frozen(Conflict):
    """A ready version never changes."""


class Unseen(Conflict):
    """What would be deleted is not what the actor has seen."""


class Busy(Conflict):
    """The same is being done already."""


class QuotaExceeded(Conflict):
    """The team would hold more than its quota allows."""

    cause: ClassVar[str] = "quota"

    def __init__(self, *, team: str, new_bytes: int, used_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"Team {team} may hold {limit_bytes:,} bytes. It holds {used_bytes:,}, uploads under way "
            f"included, and this adds {new_bytes:,}: {used_bytes + new_bytes - limit_bytes:,} too many. "
            "Delete versions that it does not need, or ask an administrator of the installation for more."
        )


class FilesRefused(Invalid):
    """Files that somebody wants to upload must not enter the registry, by their names alone."""


class PartRefused(Invalid):
    """What came is not the part that its headers announce."""

    def __init__(self, sentence: str) -> None:
        super().__init__(fields={"body": [sentence]})


class ContentDiffers(Conflict):
    """All of a content has come, and it is not what was announced: it begins anew."""


class UnknownUpload(Missing):
    """The model has no such upload, or none with such a content."""


class UnknownModel(Missing):
    """There is no such model, or the actor may not see it."""


class UnknownVersion(Missing):
    """The model has no such version."""


class UnknownHubSource(Missing):
    """The model has no such source, or the actor may not see it."""


class UnknownHubSync(Missing):
    """The model has no such sync, or the actor may not see it."""


class UnknownExport(Missing):
    """The model has no such export, or the actor may not see it."""


class UnknownRule(Missing):
    """The model has no retention rule."""


class Unsigned(Missing):
    """The version has no signature."""


class NoCard(Missing):
    """The version has no model card, or its files are not all there."""


class UnknownAlias(Missing):
    """The model has no such alias."""


class Refused(SlipwayError):
    """A file or directory entry that must not enter the registry, and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class BadKey(SlipwayError):
    """It is no key that can be used here."""


class BadSignature(SlipwayError):
    """A signature does not say what it should."""


class CannotSign(SlipwayError):
    """The key of this installation, or the command that has it, does not sign."""


class SourceUnreadable(SlipwayError):
    """The source cannot be read: gone, not a directory, no permission, an I/O error."""


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


class OnItsWay(SlipwayError):
    """The version's files are not on this node yet, but are coming."""


class NotFetched(SlipwayError):
    """The version's files cannot be brought to this node; it is tried again."""


class BlobMissing(SlipwayError):
    """The store lacks a blob that a version needs, or holds it with another size."""


class CheckFailed(SlipwayError):
    """The process that reads the store does not come to its end."""


class IntakeBusy(SlipwayError):
    """Another process is writing this intake right now."""
