"""The fake answers what a real API server answered."""

from math import inf

import pytest

from kube.fake.watching import WatchStream
from tests.kube.exceptions import HALTS, NOT_SENT, RESTARTS, SENT_ONLY, STATUS_ONLY
from tests.kube.replay import Replay, Step, ends_after, steps_of
from tests.kube.worlds import NAMESPACES, happenings_of, world_of

MESSAGES = ("message:", "details.causes[", "object.message:")
pytestmark = pytest.mark.any_database


@pytest.mark.parametrize("topic", NAMESPACES)
def test_a_recorded_request_gets_the_recorded_answer(topic: str) -> None:
    replay = Replay(world_of(topic), happenings=happenings_of(topic))
    wrong: list[str] = []
    needless: list[str] = []
    open_watches: list[tuple[float, Step, WatchStream]] = []

    def judge(step: Step, found: list[str]) -> None:
        if step.key in SENT_ONLY:
            return
        if step.key in STATUS_ONLY:
            needless.extend([] if found else [step.key])
            found = [one for one in found if not one.startswith(MESSAGES)]
        wrong.extend(f"{step}\n    {one}" for one in found)

    def close_watches(until: float) -> None:
        for one in sorted(open_watches, key=lambda each: each[0]):
            end, step, watch = one
            if end <= until:
                replay.pass_time(end)
                judge(step, replay.end(step, watch))
                open_watches.remove(one)

    for step in steps_of(topic):
        if step.key in NOT_SENT:
            continue
        close_watches(inf if step.seconds < replay.at_seconds else step.seconds)
        if step.key in HALTS:
            replay.server.advance(1.0)
            replay.server.controllers_run = HALTS[step.key]
        replay.pass_time(step.seconds)
        if step.key in RESTARTS:
            replay.server.storage.compact()
        watch = replay.begin(step) if step.is_watch else None
        if watch is not None:
            open_watches.append((step.seconds + ends_after(step), step, watch))
        else:
            judge(step, replay.differences(step))
    close_watches(inf)
    assert wrong == [], "\n".join(wrong)
    assert needless == [], "these are right by now, and no exceptions"
