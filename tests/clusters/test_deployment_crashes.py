"""Whichever worker of the control plane dies or falls asleep, wherever, the workers end up as wished for."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from clusters.backends.base import DeploymentSpec
from clusters.models import Deployment, Worker
from clusters.services.deployments import remove_deployment, scale_deployment
from clusters.states import DeploymentState
from common import audit
from common.fence import Fence
from common.models import AuditRecord, Intent
from tests.cast import SYSTEM
from tests.clusters.world import Scene, World
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, Crash, die

pytestmark = pytest.mark.django_db

LATEST = Fence(2**60, 0)
TICK = timedelta(seconds=0.5)


class Life:
    """Created, scaled, removed: the life of one deployment, with crashes wherever a test wants them."""

    def __init__(self, *, scales: bool = True) -> None:
        self.scene = Scene()
        self.scales = scales
        self.row = self.scene.deployment(replicas=1)
        self.points: Iterator[int] = iter(())
        self.checkpoints = Checkpoints()

    def live(self, *crash_points: int) -> int:
        """Returns how many of the crashes happened."""
        self.points = iter(crash_points)
        self.crashed = 0
        self._next_worker()
        self._until(lambda: self._is(DeploymentState.READY))
        if self.scales:
            self._now()
            scale_deployment(actor=SYSTEM, name=self.row.name, replicas=2)
            self._until(lambda: self._is(DeploymentState.READY) and len(self._workers()) == 2)
        self.remove()
        return self.crashed

    def remove(self) -> None:
        self._now()
        remove_deployment(actor=SYSTEM, name=self.row.name, reason="replaced")
        self._until(lambda: self._is(DeploymentState.REMOVED))

    def check(self) -> None:
        self.row.refresh_from_db()
        assert self.row.state == DeploymentState.REMOVED
        assert self.row.next_at is None
        assert self._workers() == []
        assert not Worker.objects.filter(deployment=self.row).exists()
        deeds = AuditRecord.objects.filter(subject_id=str(self.row.pk)).exclude(action="deployment.scale")
        assert sorted(set(deeds.values_list("action", flat=True))) == [
            "deployment.ready",
            "deployment.remove",
            "deployment.removed",
        ]
        assert deeds.filter(action="deployment.removed").count() == 1
        assert audit.verify().intact

    def clear(self) -> None:
        Deployment.objects.all().delete()
        Intent.objects.all().delete()

    def _next_worker(self) -> None:
        self.checkpoints = Checkpoints(at=next(self.points, 0), then=die)
        self.kernel = self.scene.worker(self.checkpoints)

    def _until(self, is_done: Callable[[], bool]) -> None:
        for _ in range(300):
            try:
                self.kernel.sweep()
            except Crash:
                self.crashed += 1
                self.scene.clock.pass_(LEASE_AND_A_BIT)
                self._next_worker()
            if is_done():
                return
            self.scene.clock.pass_(TICK)
        raise AssertionError("It never came about")

    def _now(self) -> None:
        """Wishes carry the time of the real clock: the bent one goes on from there."""
        from django.utils import timezone

        self.scene.clock.at = max(self.scene.clock.at, timezone.now())

    def _is(self, state: DeploymentState) -> bool:
        return Deployment.objects.filter(pk=self.row.pk, state=state).exists()

    def _workers(self) -> list[str]:
        return [seen.name for seen in self.scene.world.observe(self.row.name)]


def test_a_crash_at_any_point_of_its_life_changes_nothing_in_the_end() -> None:
    point = 0
    while True:
        point += 1
        life = Life()
        crashed = life.live(point)
        life.check()
        life.clear()
        if not crashed:
            break
    assert point > 20


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_crashes_at_any_two_points_change_nothing_in_the_end() -> None:
    first, runs = 0, 0
    while True:
        first += 1
        second = 0
        while True:
            second += 1
            life = Life(scales=False)
            crashed = life.live(first, second)
            life.check()
            life.clear()
            runs += 1
            if crashed < 2:
                break
        if crashed == 0:
            break
    assert runs > 150


def sleep_everywhere(world: type[World] = World) -> int:
    """A worker falls asleep at a point for longer than its lease; others do all the rest; it wakes up."""
    point = 0
    while True:
        point += 1
        life = Life(scales=False)
        life.scene.world = world()

        def others_do_the_rest(life: Life = life) -> None:
            life.scene.clock.pass_(LEASE_AND_A_BIT)
            life.kernel = life.scene.worker()
            life._until(lambda: life._is(DeploymentState.READY))
            life.remove()

        checkpoints = Checkpoints(at=point, then=others_do_the_rest, outside=True)
        sleeper = life.scene.worker(checkpoints)
        for _ in range(10):
            sleeper.sweep()
            life.scene.clock.pass_(TICK)
        if checkpoints.passed < point:
            return point - 1
        life.check()
        life.clear()


def test_a_worker_that_sleeps_past_its_lease_changes_nothing_in_the_end() -> None:
    assert sleep_everywhere() > 10


class Forgetful(World):
    """Mutant: a cluster that obeys whoever comes."""

    def apply(self, spec: DeploymentSpec, *, fence: Fence) -> None:
        super().apply(spec, fence=LATEST)

    def remove(self, deployment: str, *, fence: Fence) -> None:
        super().remove(deployment, fence=LATEST)


def test_the_schedules_notice_a_cluster_that_ignores_the_fence() -> None:
    with pytest.raises(AssertionError):
        sleep_everywhere(Forgetful)


@pytest.mark.slow
def test_a_removal_overtakes_whoever_is_at_work_at_any_point() -> None:
    point = 0
    while True:
        point += 1
        life = Life(scales=False)

        def remove(life: Life = life) -> None:
            life._now()
            remove_deployment(actor=SYSTEM, name=life.row.name, reason="aborted")

        checkpoints = Checkpoints(at=point, then=remove, outside=True)
        at_work = life.scene.worker(checkpoints)
        for _ in range(20):
            at_work.sweep()
            life.scene.clock.pass_(TICK)
        if checkpoints.passed < point:
            break
        life.kernel = life.scene.worker()
        life._until(lambda life=life: life._is(DeploymentState.REMOVED))
        assert life._workers() == []
        life.clear()
    assert point > 15
