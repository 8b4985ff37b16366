"""Wherever a worker dies or falls asleep: the machine is acted on once, verified, and returns."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connection, transaction

from clusters.backends.base import ClusterUnreachable
from clusters.backends.node_operations import NodeCommand
from clusters.models import Node
from common import audit
from common.fence import Fence
from common.reconcile import Kernel
from common.reconcile import kernel as process_kernel
from gpu_health.models import HealingSlot
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, Crash, die
from tests.gpu_health.healing import FAILED, PASSED, Ward

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]


class Undo(Exception):
    """Rolls a story's rows back."""


@contextmanager
def told_anew(ward: Ward) -> Iterator[None]:
    """The same beginning for every story: rows and the cluster go back to where they were."""
    world = {
        name: copy.deepcopy(value) for name, value in vars(ward.world).items() if name != "node_operations"
    }
    operations = {
        name: copy.copy(value)
        for name, value in vars(ward.operations).items()
        if name not in ("_cluster", "job_runner")
    }
    runner = {
        name: copy.copy(value)
        for name, value in vars(ward.operations.job_runner).items()
        if name != "program"
    }
    programs = {name: copy.copy(value) for name, value in vars(ward.programs).items()}
    at = ward.clock.at
    try:
        with transaction.atomic():
            # As Django marks the transactions of its test cases: what is inside is as if it were outside.
            connection.atomic_blocks[-1]._from_testcase = True
            yield
            raise Undo
    except Undo:
        pass
    finally:
        ward.world.__dict__.update(world)
        ward.operations.__dict__.update(operations)
        ward.operations.job_runner.__dict__.update(runner)
        ward.programs.__dict__.update(programs)
        ward.clock.at = at


def healed(ward: Ward) -> None:
    assert ward.incident.state == "closed"
    assert len(ward.programs.repaired) == 1
    assert ward.programs.ran.count("check") == 1
    assert not ward.operations.cordoned
    assert not ward.operations.taints
    common(ward)


def given_up(ward: Ward) -> None:
    """Reset, checked, rebooted, checked: each once, and out of service since."""
    assert ward.incident.state == "needs_person"
    assert len(ward.programs.repaired) == 1
    assert ward.operations.reboots == 1
    assert ward.programs.ran.count("check") == 2
    assert ward.operations.cordoned
    common(ward)


def common(ward: Ward) -> None:
    assert not ward.operations.has_operands_paused
    assert not ward.incident.has_operands_paused
    assert ward.programs.were_operands_paused == [True] * len(ward.programs.repaired)
    assert not HealingSlot.objects.exists()
    acted = ward.incident.timeline.filter(state="acting").count()
    assert acted == ward.incident.acts
    assert audit.verify().intact


def story(ward: Ward, end: str) -> Callable[[Kernel], None]:
    def tell(kernel: Kernel) -> None:
        ward.kernel = kernel
        ward.run(end)

    return tell


STORIES = {
    "healed": ("closed", [PASSED], ["reset_gpu", "contact_support"], healed),
    "given up": ("needs_person", [FAILED], ["reset_gpu", "reboot", "contact_support"], given_up),
}


@pytest.fixture(params=["healed", pytest.param("given up", marks=pytest.mark.slow)])
def told(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[Ward, Callable[[Kernel], None], Callable[[Ward], None]]:
    end, checks, ladder, check = STORIES[request.param]
    limits = {"approved_actions": [], "seconds_between_drains": 0, "quiet_seconds": 1, "watch_seconds": 2}
    ward = Ward(limits={**limits, "cooldown_seconds": 0, "repairs_per_hour": 9})
    # Wishes have the time of the story: the enumeration takes longer than the patience of one.
    monkeypatch.setattr(process_kernel, "clock", ward.clock)
    ward.programs.checks = list(checks)
    ward.finding(ladder=ladder)
    return ward, story(ward, end), check


SLOW = (pytest.mark.slow, pytest.mark.timeout(2_400))
EVERY = pytest.mark.parametrize("stride", [13, pytest.param(1, marks=SLOW)])
"""Each thirteenth point in the quick run, every one in the slow one."""


@EVERY
def test_a_crash_at_any_point_changes_nothing_in_the_end(told, stride: int) -> None:
    ward, tell, check = told
    point = 0
    while True:
        point += stride
        with told_anew(ward):
            checkpoints = Checkpoints(at=point, then=die)
            try:
                tell(ward.worker(checkpoints))
            except Crash:
                ward.clock.pass_(LEASE_AND_A_BIT)
                tell(ward.worker())
            check(ward)
        if checkpoints.passed < point:
            break
    assert point > 30


@EVERY
def test_a_worker_that_sleeps_past_its_lease_does_nothing_twice(told, stride: int) -> None:
    """Another one goes on meanwhile; then it wakes up."""
    ward, tell, check = told
    point = 0
    while True:
        point += stride
        with told_anew(ward):

            def sleep() -> None:
                ward.clock.pass_(LEASE_AND_A_BIT)
                other = ward.worker()
                for _ in range(12):
                    other.sweep()
                    ward.follow()
                    ward.clock.pass_(timedelta(seconds=2))

            checkpoints = Checkpoints(at=point, then=sleep, outside=True)
            tell(ward.worker(checkpoints))
            check(ward)
        if checkpoints.passed < point:
            break
    assert point > 30


class LostReplies:
    """The machine obeys, and its `at`-th answer never comes."""

    def __init__(self, ward: Ward, at: int) -> None:
        self._ward, self._at, self.asked = ward, at, 0
        self._real = {
            name: getattr(ward.operations, name)
            for name in ("cordon", "uncordon", "taint", "untaint", "run_job", "reboot", "evict")
        }

    def __enter__(self) -> "LostReplies":
        def losing(name: str) -> Callable[..., object]:
            def ask(*given: object, **named: object) -> object:
                answer = self._real[name](*given, **named)
                self.asked += 1
                if self.asked == self._at:
                    raise ClusterUnreachable("the answer was lost")
                return answer

            return ask

        for name in self._real:
            setattr(self._ward.operations, name, losing(name))
        return self

    def __exit__(self, *_error: object) -> None:
        for name in self._real:
            delattr(self._ward.operations, name)


def test_a_lost_reply_at_any_call_repeats_no_action(told) -> None:
    ward, tell, check = told
    at = 0
    while True:
        at += 1
        with told_anew(ward), LostReplies(ward, at) as lost:
            tell(ward.worker())
            check(ward)
        if lost.asked < at:
            break
    assert at > 6


def test_a_cordon_of_a_person_is_there_before_and_after(told) -> None:
    ward, tell, _check = told
    order = NodeCommand("by-hand", Fence(ward.node.pk, 1), "olga", "new fan")
    Node.objects.filter(pk=ward.node.pk).update(orders=1)
    ward.operations.cordon(ward.node.uid, order)

    tell(ward.worker())

    assert ward.operations.cordoned[ward.node.uid].by == "olga"
    assert ward.incident.former_cordon == {"by": "olga", "reason": "new fan"}
