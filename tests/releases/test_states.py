"""The table of moves, as the machine that wraps it sees it."""

import pytest

from common.transitions import IllegalMove
from releases.states import IN_MOTION, MOVES, ReleaseState

R = ReleaseState
FINAL = {R.PROMOTED, R.ROLLED_BACK, R.REJECTED, R.ABORTED, R.FAILED}


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


def after(state: ReleaseState) -> set[ReleaseState]:
    return {other for other in ReleaseState if MOVES.allows(state, other)}


def reachable(start: ReleaseState, *, without: frozenset[ReleaseState] = frozenset()) -> set[ReleaseState]:
    seen, open_states = {start}, [start]
    while open_states:
        for state in after(open_states.pop()) - seen - without:
            seen.add(state)
            open_states.append(state)
    return seen


@pytest.mark.parametrize("state", IN_MOTION)
def test_every_state_in_motion_can_still_be_undone(state):
    assert {R.ROLLED_BACK, R.ABORTED, R.REJECTED, R.FAILED} <= reachable(state)


def test_a_release_with_traffic_ends_only_promoted_or_through_a_roll_back_or_a_person():
    for state in (R.RUNNING, R.WAITING_APPROVAL, R.PAUSED):
        ends = reachable(state, without=frozenset({R.ROLLING_BACK, R.STUCK})) & FINAL
        assert ends == {R.PROMOTED}


def test_final_states_are_final():
    assert {state for state in R if not after(state)} == FINAL
    with pytest.raises(IllegalMove):
        MOVES.check(R.PROMOTED, R.ROLLING_BACK)


def test_a_roll_back_is_never_turned_back_into_a_running_release():
    assert R.RUNNING not in after(R.ROLLING_BACK)
    assert R.PROMOTED not in after(R.ROLLING_BACK)
