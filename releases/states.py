"""The states of releases and of their steps, and every move between them."""

from collections.abc import Mapping

from django.db.models import TextChoices


class ReleaseState(TextChoices):
    PENDING = "pending", "Pending"
    RUNNING = "running", "Running"
    WAITING_APPROVAL = "waiting_approval", "Waiting for approval"
    PAUSED = "paused", "Paused"
    PROMOTED = "promoted", "Promoted"
    ROLLING_BACK = "rolling_back", "Rolling back"
    ROLLED_BACK = "rolled_back", "Rolled back"
    REJECTED = "rejected", "Rejected"
    ABORTED = "aborted", "Aborted"
    FAILED = "failed", "Failed"
    STUCK = "stuck", "Stuck"


class StepState(TextChoices):
    TODO = "todo", "To do"
    RUNNING = "running", "Running"
    WAITING = "waiting", "Waiting"
    DONE = "done", "Done"
    SKIPPED = "skipped", "Skipped"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


_R = ReleaseState

RELEASE_MOVES: Mapping[ReleaseState, frozenset[ReleaseState]] = {
    # Nothing has been touched yet, so there is nothing to roll back.
    _R.PENDING: frozenset({_R.RUNNING, _R.ABORTED, _R.STUCK}),
    _R.RUNNING: frozenset({_R.WAITING_APPROVAL, _R.PAUSED, _R.PROMOTED, _R.ROLLING_BACK, _R.STUCK}),
    _R.WAITING_APPROVAL: frozenset({_R.RUNNING, _R.PAUSED, _R.ROLLING_BACK, _R.STUCK}),
    _R.PAUSED: frozenset({_R.RUNNING, _R.WAITING_APPROVAL, _R.ROLLING_BACK, _R.STUCK}),
    # The only way out other than promotion: it returns every request to stable and stops the candidate's
    # workers, whoever asked for it. Why it was asked decides where it ends.
    _R.ROLLING_BACK: frozenset({_R.ROLLED_BACK, _R.REJECTED, _R.ABORTED, _R.FAILED, _R.STUCK}),
    # A person retries where it got stuck, or gives up, leaving the world as it is.
    _R.STUCK: frozenset({_R.RUNNING, _R.WAITING_APPROVAL, _R.ROLLING_BACK, _R.FAILED}),
    # Going back to an earlier version after the promotion is a release of its own.
    _R.PROMOTED: frozenset(),
    _R.ROLLED_BACK: frozenset(),
    _R.REJECTED: frozenset(),
    _R.ABORTED: frozenset(),
    _R.FAILED: frozenset(),
}

FINAL_STATES: frozenset[ReleaseState] = frozenset(
    state for state, after in RELEASE_MOVES.items() if not after
)
IN_MOTION_STATES: frozenset[ReleaseState] = frozenset(RELEASE_MOVES) - FINAL_STATES
"""A service has at most one release in one of these."""

_S = StepState

STEP_MOVES: Mapping[StepState, frozenset[StepState]] = {
    _S.TODO: frozenset({_S.RUNNING, _S.SKIPPED, _S.CANCELLED}),
    _S.RUNNING: frozenset({_S.WAITING, _S.DONE, _S.SKIPPED, _S.FAILED, _S.CANCELLED}),
    _S.WAITING: frozenset({_S.RUNNING, _S.DONE, _S.FAILED, _S.CANCELLED}),
    _S.DONE: frozenset(),
    _S.SKIPPED: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELLED: frozenset(),
}
