"""The states of a version and the moves between them."""

from django.db.models import TextChoices

from common.transitions import Machine


class VersionState(TextChoices):
    IMPORTING = "importing"
    READY = "ready"
    FAILED = "failed"
    """Something stood in the way; the same import may succeed later."""
    REFUSED = "refused"
    """Its files must not enter the registry."""
    DELETED = "deleted"
    """Its files are gone; the row stays, so that history keeps its meaning and its name is not used again."""


_S = VersionState
MOVES: Machine[VersionState] = Machine(
    {
        _S.IMPORTING: {_S.READY, _S.FAILED, _S.REFUSED},
        _S.FAILED: {_S.IMPORTING, _S.DELETED},
        _S.REFUSED: {_S.IMPORTING, _S.DELETED},
        _S.READY: {_S.DELETED},
        _S.DELETED: set(),
    }
)
FROZEN = frozenset({VersionState.READY, VersionState.DELETED})
"""In these nothing but the state may change."""
HOLDS_BLOBS = frozenset({VersionState.IMPORTING, VersionState.READY})
"""In these the files of a version keep their blobs in the store."""
