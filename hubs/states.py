"""The states of syncs and exports, and the moves between them."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from common.languages import Text
from common.transitions import StateMachine


class HubKind(TextChoices):
    """The protocol of a hub."""

    HUGGINGFACE = "huggingface", "Hugging Face"
    MODELSCOPE = "modelscope", "ModelScope"


DEFAULT_BRANCHES = {HubKind.HUGGINGFACE: "main", HubKind.MODELSCOPE: "master"}


class TransferState(TextChoices):
    """The states of syncs and exports, which move files between a hub and this server."""

    RESOLVING = "resolving", _("Resolving")
    """A sync asks the hub which commit the revision is."""
    FETCHING = "fetching", _("Fetching")
    """A sync imports a version of that commit."""
    SENDING = "sending", _("Sending")
    """An export looks at the repository, sends what is missing there, and commits."""
    PAUSED = "paused", _("Paused")
    """A person paused it; what has come is kept, and a hub keeps for a while what has arrived."""
    INTERRUPTED = "interrupted", _("Interrupted")
    """The hub gave nothing for too long, or refuses the token. A person resumes it; a sync goes on with its
    schedule, too, or with a new token for its source.
    """
    DONE = "done", _("Done")
    """The version is ready, or one commit of the repository holds it."""
    CURRENT = "current", _("Current")
    """There was nothing to sync: there is a version of this commit."""
    FAILED = "failed", _("Failed")
    REFUSED = "refused", _("Refused")
    """The repository holds what must not enter the registry."""
    CANCELLED = "cancelled", _("Cancelled")


class SyncFailureCause(TextChoices):
    """Why a sync failed or was interrupted, where a program may act on it; the reason says it in full."""

    GATED = "gated", _("The repository is gated.")
    NO_REPOSITORY = "no_repository", _("There is no such repository, or the token gives no access to it.")
    NO_REVISION = "no_revision", _("The repository has no such revision.")
    BAD_TOKEN = "bad_token", _("The hub does not accept the token.")
    CHANGED = "changed", _("The repository changed while it was fetched.")
    MISBEHAVES = "misbehaves", _("The data from the hub does not match its checksums.")
    UNREACHABLE = "unreachable", _("The hub cannot be reached.")
    RATE_LIMITED = "rate_limited", _("The hub limits the rate of requests.")
    ADDRESS_FORBIDDEN = "address_forbidden", _("The hub redirects to an address that is not allowed.")
    STORE_FULL = "store_full", _("The model store is full.")
    QUOTA = "quota", _("The storage limit of the team is reached.")


_T = TransferState

MOVING = frozenset({_T.FETCHING, _T.SENDING})
HALTED = frozenset({_T.PAUSED, _T.INTERRUPTED})
UNDER_WAY = MOVING | {_T.RESOLVING}
OPEN = UNDER_WAY | HALTED
_ENDED = {_T.DONE, _T.FAILED, _T.REFUSED, _T.CANCELLED}
_BEGUN_AGAIN = {_T.RESOLVING, _T.SENDING}

Choices = tuple[tuple[str, Text], ...]
SYNC_STATES: Choices = tuple((state.value, state.label) for state in _T if state != _T.SENDING)
EXPORT_STATES: Choices = tuple(
    (state.value, state.label)
    for state in _T
    if state not in {_T.RESOLVING, _T.FETCHING, _T.CURRENT, _T.REFUSED}
)
"""As choices: constraints of the database keep each kind to its own."""

MOVES: StateMachine[TransferState] = StateMachine(
    {
        _T.RESOLVING: {_T.FETCHING, _T.CURRENT, _T.FAILED, _T.CANCELLED},
        _T.FETCHING: {*HALTED, *_ENDED},
        _T.SENDING: {*HALTED, *_ENDED},
        # What was done before the pause was heard of counts.
        _T.PAUSED: {*MOVING, *_ENDED},
        _T.INTERRUPTED: {*MOVING, *_ENDED},
        _T.FAILED: _BEGUN_AGAIN,
        _T.REFUSED: _BEGUN_AGAIN,
        _T.CANCELLED: _BEGUN_AGAIN,
        _T.DONE: set(),
        _T.CURRENT: set(),
    }
)

WISHES: dict[str, frozenset[TransferState]] = {
    "pause": MOVING,
    "resume": HALTED,
    "cancel": OPEN,
    "retry": frozenset({_T.FAILED, _T.REFUSED, _T.CANCELLED}),
}
"""What people may ask of a transfer, and in which states."""


class ExportKind(TextChoices):
    """The kinds of destinations of an export."""

    HUGGINGFACE = "huggingface", _("Hugging Face repository")
    SLIPWAY = "slipway", _("Another Slipway")
