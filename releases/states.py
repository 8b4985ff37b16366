"""The states of releases and their steps, and the table of moves."""

from django.db.models import TextChoices
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from common.transitions import StateMachine


class ReleaseState(TextChoices):
    PENDING = "pending", _("Pending")
    RUNNING = "running", _("Running")
    WAITING_APPROVAL = "waiting_approval", _("Waiting for approval")
    PAUSED = "paused", _("Paused")
    PROMOTED = "promoted", _("Promoted")
    ROLLING_BACK = "rolling_back", _("Rolling back")
    ROLLED_BACK = "rolled_back", _("Rolled back")
    REJECTED = "rejected", _("Rejected")
    ABORTED = "aborted", _("Aborted")
    FAILED = "failed", _("Failed")
    STUCK = "stuck", _("Stuck")


class StepState(TextChoices):
    PENDING = "pending", _("Pending")
    RUNNING = "running", _("Running")
    DONE = "done", _("Done")
    FAILED = "failed", _("Failed")
    ABORTED = "aborted", _("Aborted")
    REJECTED = "rejected", _("Rejected")
    NOT_RUN = "not_run", _("Not run")


class Halt(TextChoices):
    """Why a release gives up; it decides the state in which it ends."""

    ABORT = "abort", _("Abort")
    REJECT = "reject", _("Reject")
    ROLLBACK = "rollback", _("Roll back")
    FAIL = "fail", _("Fail")


class ThresholdSource(TextChoices):
    LEARNT = "learnt", _("Learnt")
    PERSON = "person", _("Set by a person")


class IndicatorSource(TextChoices):
    """Who counts an indicator that a service has."""

    PUSHED = "pushed", _("Pushed by REST")
    PROMETHEUS = "prometheus", _("Prometheus queries")


class PatchState(TextChoices):
    """State of a patch of a service's pods."""

    PROPOSED = "proposed", _("Proposed")
    APPROVED = "approved", _("In effect")
    REPLACED = "replaced", _("Replaced")
    REJECTED = "rejected", _("Rejected")
    WITHDRAWN = "withdrawn", _("Withdrawn")


class ApprovalDecision(TextChoices):
    APPROVE = "approve", _("Approve")
    REJECT = "reject", _("Reject")


class ReleaseHeader(TextChoices):
    """Clients of whom the gateway takes `x-release`, which chooses between stable and candidate."""

    OFF = "off", _("Nobody")
    SECRET = "secret", _("Clients that send the key")
    OPEN = "open", _("Every client")


_S = ReleaseState

MOVES: StateMachine[ReleaseState] = StateMachine(
    {
        _S.PENDING: {_S.RUNNING, _S.PAUSED, _S.ROLLING_BACK, _S.STUCK},
        _S.RUNNING: {_S.WAITING_APPROVAL, _S.PAUSED, _S.PROMOTED, _S.ROLLING_BACK, _S.STUCK},
        _S.WAITING_APPROVAL: {_S.RUNNING, _S.PAUSED, _S.ROLLING_BACK, _S.STUCK},
        _S.PAUSED: {_S.PENDING, _S.RUNNING, _S.WAITING_APPROVAL, _S.ROLLING_BACK, _S.STUCK},
        _S.ROLLING_BACK: {_S.ROLLED_BACK, _S.REJECTED, _S.ABORTED, _S.FAILED, _S.STUCK},
        _S.STUCK: {_S.PENDING, _S.RUNNING, _S.WAITING_APPROVAL, _S.PAUSED, _S.ROLLING_BACK},
        _S.PROMOTED: set(),
        _S.ROLLED_BACK: set(),
        _S.REJECTED: set(),
        _S.ABORTED: set(),
        _S.FAILED: set(),
    }
)

IN_MOTION = tuple(state for state in ReleaseState if not MOVES.is_final(state))

FINAL = frozenset(state.value for state in ReleaseState if MOVES.is_final(state))


def is_known(state: str) -> bool:
    """A newer release of Slipway, beside this one during an upgrade, may have more."""
    return state in ReleaseState.values


def word_of(state: str) -> str:
    """Return the state's word as it stands in a sentence."""
    if is_known(state):
        return str(ReleaseState(state).label.lower())
    return gettext("%(state)s, which is unknown to this version of Slipway") % {"state": state}


ENDS: dict[Halt, ReleaseState] = {
    Halt.ABORT: _S.ABORTED,
    Halt.REJECT: _S.REJECTED,
    Halt.ROLLBACK: _S.ROLLED_BACK,
    Halt.FAIL: _S.FAILED,
}

STEP_ENDS: dict[Halt, StepState] = {
    Halt.ABORT: StepState.ABORTED,
    Halt.REJECT: StepState.REJECTED,
    Halt.ROLLBACK: StepState.FAILED,
    Halt.FAIL: StepState.FAILED,
}
"""How the step ends at which a release gives up; those after it are not run."""
