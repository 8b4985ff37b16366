"""The states of a version and the moves between them."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from common.transitions import Machine


class VersionState(TextChoices):
    IMPORTING = "importing", _("Importing")
    READY = "ready", _("Ready")
    ARCHIVED = "archived", _("Archived")
    """Set aside: it keeps its files, but lists leave it out and no alias or release may name it."""
    FAILED = "failed", _("Failed")
    """Something stood in the way; the same import may succeed later."""
    REFUSED = "refused", _("Refused")
    """Its files must not enter the registry."""
    DELETED = "deleted", _("Deleted")
    """Its files are gone; the row stays, so that history keeps its meaning and its name is not used again."""


_S = VersionState
MOVES: Machine[VersionState] = Machine(
    {
        _S.IMPORTING: {_S.READY, _S.FAILED, _S.REFUSED},
        _S.FAILED: {_S.IMPORTING, _S.DELETED},
        _S.REFUSED: {_S.IMPORTING, _S.DELETED},
        _S.READY: {_S.ARCHIVED, _S.DELETED},
        _S.ARCHIVED: {_S.READY, _S.DELETED},
        _S.DELETED: set(),
    }
)
FROZEN = frozenset({VersionState.READY, VersionState.ARCHIVED, VersionState.DELETED})
"""In these nothing but the state and the tags may change."""
HOLDS_BLOBS = frozenset({VersionState.IMPORTING, VersionState.READY, VersionState.ARCHIVED})
"""In these the files of a version keep their blobs in the store."""
WHOLE = HOLDS_BLOBS - {VersionState.IMPORTING}
"""In these all of its blobs must be there."""


class HubKind(TextChoices):
    """Which protocol a hub speaks."""

    HUGGINGFACE = "huggingface", "Hugging Face"
    MODELSCOPE = "modelscope", "ModelScope"


DEFAULT_BRANCHES = {HubKind.HUGGINGFACE: "main", HubKind.MODELSCOPE: "master"}


class SyncState(TextChoices):
    RESOLVING = "resolving", _("Resolving")
    """The hub is asked which commit the revision is."""
    FETCHING = "fetching", _("Fetching")
    """A version of that commit is being imported."""
    PAUSED = "paused", _("Paused")
    """A person paused it; what has come is kept."""
    INTERRUPTED = "interrupted", _("Interrupted")
    """The hub gave nothing for too long, or refuses the token; what has come is kept, and the next schedule,
    or a new token for the source, goes on with it.
    """
    DONE = "done", _("Done")
    """The version is ready."""
    CURRENT = "current", _("Current")
    """Nothing to do: there is a version of this commit."""
    FAILED = "failed", _("Failed")
    REFUSED = "refused", _("Refused")
    """The repository holds what must not enter the registry."""
    CANCELLED = "cancelled", _("Cancelled")


class Cause(TextChoices):
    """Why a sync failed or was interrupted, where a program may act on it; the reason says it in full."""

    GATED = "gated", _("The repository is gated.")
    NO_REPOSITORY = "no_repository", _("There is no such repository, or the token does not open it.")
    NO_REVISION = "no_revision", _("The repository has no such revision.")
    BAD_TOKEN = "bad_token", _("The hub does not accept the token.")
    CHANGED = "changed", _("The repository changed while it was fetched.")
    MISBEHAVES = "misbehaves", _("What the hub sends is not what it promises.")
    UNREACHABLE = "unreachable", _("The hub cannot be reached.")
    RATE_LIMITED = "rate_limited", _("The hub asks for fewer requests.")
    ADDRESS_FORBIDDEN = "address_forbidden", _("The hub leads to an address that is not allowed.")
    STORE_FULL = "store_full", _("The model store is full.")
    QUOTA = "quota", _("The team has no room left.")


_Y = SyncState
_ENDED = {_Y.DONE, _Y.FAILED, _Y.REFUSED, _Y.CANCELLED}
SYNC_MOVES: Machine[SyncState] = Machine(
    {
        _Y.RESOLVING: {_Y.FETCHING, _Y.CURRENT, _Y.FAILED, _Y.CANCELLED},
        _Y.FETCHING: {_Y.PAUSED, _Y.INTERRUPTED, *_ENDED},
        _Y.PAUSED: {_Y.FETCHING, *_ENDED},
        _Y.INTERRUPTED: {_Y.FETCHING, *_ENDED},
        _Y.FAILED: {_Y.RESOLVING},
        _Y.REFUSED: {_Y.RESOLVING},
        _Y.CANCELLED: {_Y.RESOLVING},
        _Y.DONE: set(),
        _Y.CURRENT: set(),
    }
)
OPEN_SYNCS = frozenset({_Y.RESOLVING, _Y.FETCHING, _Y.PAUSED, _Y.INTERRUPTED})
FETCHING_SYNCS = OPEN_SYNCS - {_Y.RESOLVING}
"""In these a sync follows its version."""


class ExportKind(TextChoices):
    """What a version is exported to."""

    HUGGINGFACE = "huggingface", _("Hugging Face repository")
    SLIPWAY = "slipway", _("Another Slipway")


class ExportState(TextChoices):
    SENDING = "sending", _("Sending")
    """Its process looks at the repository, sends what is missing there, and commits."""
    PAUSED = "paused", _("Paused")
    """A person paused it; what the hub has got it keeps for a while."""
    INTERRUPTED = "interrupted", _("Interrupted")
    """The hub gave nothing for too long; a person resumes it."""
    DONE = "done", _("Done")
    """One commit of the repository holds the version."""
    FAILED = "failed", _("Failed")
    CANCELLED = "cancelled", _("Cancelled")


_X = ExportState
EXPORT_MOVES: Machine[ExportState] = Machine(
    {
        _X.SENDING: {_X.PAUSED, _X.INTERRUPTED, _X.DONE, _X.FAILED, _X.CANCELLED},
        # What its process has done before it heard of the pause counts.
        _X.PAUSED: {_X.SENDING, _X.DONE, _X.FAILED, _X.CANCELLED},
        _X.INTERRUPTED: {_X.SENDING, _X.CANCELLED},
        _X.FAILED: {_X.SENDING},
        _X.DONE: set(),
        _X.CANCELLED: set(),
    }
)
OPEN_EXPORTS = frozenset({_X.SENDING, _X.PAUSED, _X.INTERRUPTED})


class FindingState(TextChoices):
    FOUND = "found", _("Found")
    """A damaged file still lies among the blobs."""
    ASIDE = "aside", _("Aside")
    """It is moved aside, or was never there; it is fetched from where its versions came from."""
    LOST = "lost", _("Lost")
    """No source of its versions gives it any more."""
    REPAIRED = "repaired", _("Repaired")
    UNNEEDED = "unneeded", _("Unneeded")
    """No version needs it."""


_F = FindingState
FINDING_MOVES: Machine[FindingState] = Machine(
    {
        _F.FOUND: {_F.ASIDE},
        _F.ASIDE: {_F.LOST, _F.REPAIRED, _F.UNNEEDED},
        # It is looked for again: somebody asks for that, or has brought the file.
        _F.LOST: {_F.FOUND, _F.ASIDE},
        _F.REPAIRED: set(),
        _F.UNNEEDED: set(),
    }
)
OPEN_FINDINGS = frozenset({FindingState.FOUND, FindingState.ASIDE, FindingState.LOST})
"""In these the versions that need the file cannot be released."""


class SignatureVerdict(TextChoices):
    VALID = "valid", _("Valid")
    """A key that the team trusted then has signed just the files of the version."""
    UNKNOWN = "unknown", _("Unknown")
    """Nobody whom the team trusts has made it."""
    INVALID = "invalid", _("Invalid")
    """It is broken, or was made for other files."""
    MISSING = "missing", _("Missing")
    """Slipway is to sign the version and could not yet."""


class SignatureOrigin(TextChoices):
    FILES = "files", _("Files")
    """It came with the version's files."""
    SLIPWAY = "slipway", _("Slipway")
    """This installation has made it."""


class SignatureDemand(TextChoices):
    """What becomes of a version without a signature that its team trusts, when it is to be served."""

    OFF = "off", _("not required")
    WARN = "warn", _("it is served, with a warning")
    REQUIRE = "require", _("it is not served")


class UploadState(TextChoices):
    OPEN = "open", _("Open")
    """Parts are taken."""
    IMPORTING = "importing", _("Importing")
    """All of it has come; a version is made of it."""
    DONE = "done", _("Done")
    """The version is ready."""
    REFUSED = "refused", _("Refused")
    """It holds what must not enter the registry."""
    CANCELLED = "cancelled", _("Cancelled")
    EXPIRED = "expired", _("Expired")
    """Nobody sent anything for too long."""


_U = UploadState
UPLOAD_MOVES: Machine[UploadState] = Machine(
    {
        _U.OPEN: {_U.IMPORTING, _U.CANCELLED, _U.EXPIRED},
        # Back to open: something stood in the way, or what came is not what was announced.
        _U.IMPORTING: {_U.OPEN, _U.DONE, _U.REFUSED, _U.CANCELLED},
        _U.DONE: set(),
        _U.REFUSED: set(),
        _U.CANCELLED: set(),
        _U.EXPIRED: set(),
    }
)
LIVE_UPLOADS = frozenset({_U.OPEN, _U.IMPORTING})
"""In these what has come is kept, and the room for the rest."""


class RunState(TextChoices):
    """Of what is done to the whole store."""

    RUNNING = "running", _("Running")
    DONE = "done", _("Done")
    STOPPED = "stopped", _("Stopped")


RUN_MOVES: Machine[RunState] = Machine(
    {
        RunState.RUNNING: {RunState.DONE, RunState.STOPPED},
        RunState.DONE: set(),
        RunState.STOPPED: set(),
    }
)
