from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from common.transitions import StateMachine


class PoolMode(TextChoices):
    """Degree to which a pool acts by itself."""

    OFF = "off", _("Off")
    ADVISE = "advise", _("Advise")
    APPROVE = "approve", _("Ask for approval")
    AUTOMATIC = "automatic", _("Automatic")


class CapacityPlanState(TextChoices):
    PROPOSED = "proposed", _("Proposed")
    RELEASING = "releasing", _("Releasing")
    ACQUIRING = "acquiring", _("Acquiring")
    DONE = "done", _("Done")
    FAILED = "failed", _("Failed")
    STOPPED = "stopped", _("Stopped")
    SUPERSEDED = "superseded", _("Superseded")
    REJECTED = "rejected", _("Rejected")
    UNDONE = "undone", _("Undone")


_S = CapacityPlanState
RUNNING = (_S.RELEASING, _S.ACQUIRING)
OPEN = (_S.PROPOSED, *RUNNING)

MOVES: StateMachine[CapacityPlanState] = StateMachine(
    {
        _S.PROPOSED: {_S.RELEASING, _S.SUPERSEDED, _S.REJECTED},
        _S.RELEASING: {_S.ACQUIRING, _S.FAILED, _S.STOPPED},
        _S.ACQUIRING: {_S.DONE, _S.FAILED, _S.STOPPED},
        _S.DONE: {_S.UNDONE},
        _S.FAILED: {_S.UNDONE},
        _S.STOPPED: {_S.UNDONE},
        _S.SUPERSEDED: set(),
        _S.REJECTED: set(),
        _S.UNDONE: set(),
    }
)
"""A plan is undone by another one, once that is done."""
