"""The fake answers what a real API server answered."""

import pytest

from tests.kube.exceptions import NOT_SENT, NOT_YET, STATUS_ONLY
from tests.kube.replay import Replay, Step, steps_of
from tests.kube.worlds import NAMESPACES, world_of

pytestmark = pytest.mark.any_database


@pytest.mark.parametrize("topic", NAMESPACES)
def test_a_recorded_request_gets_the_recorded_answer(topic: str) -> None:
    replay = Replay(world_of(topic))
    wrong: list[str] = []
    needless: list[str] = []
    for step in steps_of(topic):
        key = f"{topic}/{step.number}"
        if step.is_watch or key in NOT_SENT:
            continue
        found = replay.differences(step)
        if key in STATUS_ONLY:
            needless += [] if found else [key]
            found = [one for one in found if not one.startswith(("message:", "details.causes[0].message:"))]
        elif key in NOT_YET:
            needless += [] if found else [key]
            continue
        wrong += told(step, found)
    assert wrong == [], "\n".join(wrong)
    assert needless == [], "these are right by now, and no exceptions"


def told(step: Step, differences: list[str]) -> list[str]:
    return [f"{step}\n    {one}" for one in differences]
