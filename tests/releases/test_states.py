"""The table of moves, as the machine that wraps it sees it."""

import pytest

from common.transitions import IllegalMove, Machine
from releases.states import (
    FINAL_STATES,
    IN_MOTION_STATES,
    RELEASE_MOVES,
    STEP_MOVES,
    ReleaseState,
    StepState,
)

R = ReleaseState


def test_the_states_are_those_that_are_promised_outside():
    assert [state.value for state in ReleaseState] == [
        "pending",
        "running",
        "waiting_approval",
        "paused",
        "promoted",
        "rolling_back",
        "rolled_back",
        "rejected",
        "aborted",
        "failed",
        "stuck",
    ]


def test_every_state_has_a_row_and_the_machine_takes_both_tables():
    assert Machine(RELEASE_MOVES).states == frozenset(ReleaseState)
    assert Machine(STEP_MOVES).states == frozenset(StepState)


def reachable(start: ReleaseState, *, without: frozenset[ReleaseState] = frozenset()) -> set[ReleaseState]:
    seen, open_states = {start}, [start]
    while open_states:
        for state in RELEASE_MOVES[open_states.pop()] - seen - without:
            seen.add(state)
            open_states.append(state)
    return seen


@pytest.mark.parametrize("state", sorted(IN_MOTION_STATES))
def test_every_state_in_motion_can_still_be_undone(state):
    undone = {R.ABORTED} if state is R.PENDING else {R.ROLLED_BACK, R.ABORTED, R.REJECTED, R.FAILED}
    assert undone <= reachable(state)


def test_a_release_with_traffic_ends_only_promoted_or_through_a_roll_back_or_a_person():
    for state in (R.RUNNING, R.WAITING_APPROVAL, R.PAUSED):
        ends = reachable(state, without=frozenset({R.ROLLING_BACK, R.STUCK})) & FINAL_STATES
        assert ends == {R.PROMOTED}


def test_final_states_are_final():
    machine = Machine(RELEASE_MOVES)
    assert (
        machine.final_states == FINAL_STATES == {R.PROMOTED, R.ROLLED_BACK, R.REJECTED, R.ABORTED, R.FAILED}
    )
    with pytest.raises(IllegalMove):
        machine.check(R.PROMOTED, R.ROLLING_BACK)


def test_a_roll_back_is_never_turned_back_into_a_running_release():
    assert R.RUNNING not in RELEASE_MOVES[R.ROLLING_BACK]
    assert R.PROMOTED not in RELEASE_MOVES[R.ROLLING_BACK]
