"""The states of a version and the moves between them."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from common.transitions import StateMachine


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


MOVES: StateMachine[VersionState] = StateMachine(
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


class SignatureOrigin(TextChoices):
    FILES = "files", _("Files")
    """It came with the version's files."""
    SLIPWAY = "slipway", _("Slipway")
    """This installation has made it."""


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


UPLOAD_MOVES: StateMachine[UploadState] = StateMachine(
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
