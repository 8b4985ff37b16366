"""The states of what is done to the store and its blobs, and the moves between them."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from common.transitions import StateMachine


class CorruptBlobState(TextChoices):
    FOUND = "found", _("Found")
    """A damaged file still lies among the blobs."""
    ASIDE = "aside", _("Aside")
    """It is moved aside, or was never there; it is fetched from where its versions came from."""
    LOST = "lost", _("Lost")
    """No source of its versions gives it any more."""
    REPAIRED = "repaired", _("Repaired")
    UNNEEDED = "unneeded", _("Unneeded")
    """No version needs it."""


_F = CorruptBlobState


CORRUPT_BLOB_MOVES: StateMachine[CorruptBlobState] = StateMachine(
    {
        _F.FOUND: {_F.ASIDE},
        _F.ASIDE: {_F.LOST, _F.REPAIRED, _F.UNNEEDED},
        # It is looked for again: somebody asks for that, or has brought the file.
        _F.LOST: {_F.FOUND, _F.ASIDE},
        _F.REPAIRED: set(),
        _F.UNNEEDED: set(),
    }
)


OPEN_CORRUPT_BLOBS = frozenset({CorruptBlobState.FOUND, CorruptBlobState.ASIDE, CorruptBlobState.LOST})
"""In these the versions that need the file cannot be released."""


class RunState(TextChoices):
    """The states of a check or collection of the whole store."""

    RUNNING = "running", _("Running")
    DONE = "done", _("Done")
    STOPPED = "stopped", _("Stopped")


RUN_MOVES: StateMachine[RunState] = StateMachine(
    {
        RunState.RUNNING: {RunState.DONE, RunState.STOPPED},
        RunState.DONE: set(),
        RunState.STOPPED: set(),
    }
)
