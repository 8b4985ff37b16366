"""The states of syncs and exports, and the moves between them."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from common.transitions import Machine


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
