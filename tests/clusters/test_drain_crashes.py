"""Whichever worker of the control plane dies or sleeps during a drain, the machine ends up as ordered."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from clusters.backends.base import ObservedState, StaleDeploymentFence
from clusters.backends.fake import NODE
from clusters.backends.node_operations import NodeCommand
from clusters.models import Deployment, Drain, Node, Worker
from clusters.services.drains import cancel_drain
from clusters.states import DrainState
from common.fence import Fence
from common.models import AuditRecord, Intent
from tests.clusters.test_drains import SYSTEM, Draining
from tests.clusters.test_replacements import TwoMachines
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, Crash, die

pytestmark = pytest.mark.django_db
TICK = timedelta(seconds=0.5)


class Life:
    """Ordered and done, or cancelled half-way, with crashes wherever a test wants them."""

    def __init__(self, *, is_cancelled: bool = False, was_cordoned: bool = False) -> None:
        self.audited = AuditRecord.objects.count()
        self.scene = Draining()
        self.is_cancelled = is_cancelled
        self.was_cordoned = was_cordoned
        if was_cordoned:
            self.scene.operations.cordon(NODE.uid, NodeCommand("theirs", Fence(0, 1), "ada", "It is mine."))
        self.scene.stands("theirs-1")
        self.scene.stands("theirs-2")
        if is_cancelled:
            self.scene.operations.budgets["theirs"] = "The budget theirs allows none"
        self.row = self.scene.drain()
        self.crashed = 0

    def live(self, checkpoints: Checkpoints) -> None:
        self.kernel = self.scene.worker(checkpoints)
        self._until(lambda: self._is(DrainState.EVICTING, DrainState.DRAINED))
        if self.is_cancelled:
            self.cancel()
        self._until(lambda: self._is(*ENDED))

    def cancel(self) -> None:
        cancel_drain(actor=SYSTEM, drain=Drain.objects.get(pk=self.row.pk), reason="Not today.")
        Drain.objects.filter(pk=self.row.pk).update(next_at=self.scene.clock())

    def check(self) -> None:
        self.row.refresh_from_db()
        cordon = self.scene.operations.cordoned.get(NODE.uid)
        if self.is_cancelled:
            assert self.row.state == DrainState.CANCELLED
            assert (cordon.by if cordon else "") == ("ada" if self.was_cordoned else "")
            assert len(self.scene.operations.others) == 2
        else:
            assert (self.row.state, self.row.problem) == (DrainState.DRAINED, "")
            assert cordon.by == ("ada" if self.was_cordoned else self.row.cordon_name)
            assert self.scene.operations.others == []
        assert self.row.next_at is None
        assert not Worker.objects.exclude(leaves_with=None).exists()
        deeds = AuditRecord.objects.order_by("pk").values_list("action", flat=True)[self.audited :]
        names = [name for name in deeds if name.startswith("node.drain.")]
        assert len(names) == len(set(names)), "each move is told once"

    def clear(self) -> None:
        Drain.objects.all().delete()
        Node.objects.all().delete()
        Intent.objects.all().delete()

    def _until(self, is_done: Callable[[], bool]) -> None:
        for _ in range(200):
            try:
                self.kernel.sweep()
            except Crash:
                self.crashed += 1
                self.scene.clock.pass_(LEASE_AND_A_BIT)
                self.kernel = self.scene.worker()
            if is_done():
                return
            self.scene.clock.pass_(TICK)
        raise AssertionError("It never came about")

    def _is(self, *states: DrainState) -> bool:
        return Drain.objects.filter(pk=self.row.pk, state__in=states).exists()


ENDED = (DrainState.DRAINED, DrainState.FAILED, DrainState.CANCELLED)


@pytest.mark.parametrize("was_cordoned", [False, True])
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_crash_at_any_point_changes_nothing_in_the_end(is_cancelled: bool, was_cordoned: bool) -> None:
    point = 0
    while True:
        point += 1
        life = Life(is_cancelled=is_cancelled, was_cordoned=was_cordoned)
        checkpoints = Checkpoints(at=point, then=die)
        life.live(checkpoints)
        life.check()
        life.clear()
        if not life.crashed:
            break
    assert point > 12


@pytest.mark.parametrize("was_cordoned", [False, True])
def test_a_worker_that_sleeps_past_its_lease_while_others_cancel_changes_nothing(was_cordoned: bool) -> None:
    point = 0
    while True:
        point += 1
        life = Life(is_cancelled=True, was_cordoned=was_cordoned)

        def others_cancel(life: Life = life) -> None:
            life.scene.clock.pass_(LEASE_AND_A_BIT)
            life.kernel = life.scene.worker()
            life.cancel()
            life._until(lambda life=life: life._is(*ENDED))
            # From now on nothing holds a late eviction back.
            life.scene.operations.budgets.clear()

        checkpoints = Checkpoints(at=point, then=others_cancel, outside=True)
        sleeper = life.scene.worker(checkpoints)
        for _ in range(12):
            sleeper.sweep()
            life.scene.clock.pass_(TICK)
        if checkpoints.passed < point:
            life.clear()
            break
        life.check()
        life.clear()
    assert point > 8


class WithReplacements(Life):
    """Our own workers are there, and find room on another machine."""

    def __init__(self, *, is_cancelled: bool = False) -> None:
        self.audited = AuditRecord.objects.count()
        self.scene = self.two = TwoMachines()
        self.scene.world.starts_as = ObservedState.READY
        self.is_cancelled, self.was_cordoned = is_cancelled, False
        self.crashed = 0
        self.row = self.scene.drain()

    def live(self, checkpoints: Checkpoints) -> None:
        self.kernel = self.scene.worker(checkpoints)
        if self.is_cancelled:
            self._until(lambda: self._is(DrainState.REPLACING, DrainState.TURNING_AWAY))
            self.cancel()
        self._until(lambda: self._is(*ENDED))
        self._until(lambda: len(self.two.workers()) == 2)
        self.scene.pass_(4)

    def check(self) -> None:
        self.row.refresh_from_db()
        ended = DrainState.CANCELLED if self.is_cancelled else DrainState.DRAINED
        assert (self.row.state, self.row.problem) == (ended, "")
        workers = self.two.workers()
        assert len(workers) == 2, "none is left too many"
        if not self.is_cancelled:
            assert set(workers.values()) == {"other-node"}
            assert self.scene.evicted() == set()
        self.two.row.refresh_from_db()
        assert (self.two.row.state, self.two.row.reason) == ("ready", "")
        assert not Worker.objects.exclude(leaves_with=None).exists()

    def clear(self) -> None:
        Deployment.objects.all().delete()
        super().clear()


@pytest.mark.slow
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_crash_at_any_point_leaves_no_worker_too_many_and_none_too_few(is_cancelled: bool) -> None:
    point = 0
    while True:
        point += 1
        life = WithReplacements(is_cancelled=is_cancelled)
        life.live(Checkpoints(at=point, then=die))
        life.check()
        life.clear()
        if not life.crashed:
            break
    assert point > 20


def test_whoever_was_overtaken_between_its_look_and_its_order_gets_none() -> None:
    """The machine itself refuses it: a lease alone is no mutual exclusion."""
    life = Life()
    operations = life.scene.operations
    slept: list[bool] = []
    evict = operations.evict

    def sleepy(*args: object, **options: object) -> object:
        if not slept:
            slept.append(True)
            life.scene.clock.pass_(LEASE_AND_A_BIT)
            life.kernel = life.scene.worker()
            life.cancel()
            life._until(lambda: life._is(*ENDED))
            with pytest.raises(StaleDeploymentFence):
                evict(*args, **options)
        return evict(*args, **options)

    operations.evict = sleepy
    life.scene.pass_(10)
    assert slept
    life.row.refresh_from_db()
    assert life.row.state == DrainState.CANCELLED
    assert len(operations.others) == 2
    assert operations.cordoned == {}
