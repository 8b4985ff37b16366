"""A row and its job: workers die or sleep at any point, jobs die, vanish, have no room, run elsewhere."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from django.utils import timezone

from common import disk
from common.jobs.runners.fake import FakeRunner
from common.jobs.spec import Ending
from common.models import Intent, Pulse
from common.reconcile import Kernel, silent_hosts
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, Clock, die, dies, run_until_rest, worker
from tests.toys.errands import ErrandReconciler, again, call_off
from tests.toys.models import Errand

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]

ANSWER = {"answer": "flowers"}


@dataclass
class Scene:
    runner: FakeRunner = field(default_factory=lambda: FakeRunner(lambda spec: ANSWER))
    clock: Clock = field(default_factory=Clock)

    def begun(self) -> Errand:
        return Errand.objects.create(next_at=self.clock())

    def worker(self, checkpoints: Checkpoints | None = None) -> Kernel:
        one = worker([ErrandReconciler(self.runner)], self.clock, checkpoints)
        one.host = lambda: self.runner.host
        return one

    def sweep(self, times: int = 1) -> None:
        for _ in range(times):
            self.worker().sweep()
            self.clock.pass_(timedelta(seconds=6))

    def finish(self) -> None:
        run_until_rest(self.worker(), self.clock, tick=timedelta(seconds=4))

    def check(self, errand: Errand, state: str = "done", *, jobs: int = 1) -> None:
        """Check that the errand is over, that it started so many jobs, and that none is left."""
        errand.refresh_from_db()
        assert (errand.state, errand.stuck_at, errand.job) == (state, None, "")
        assert len(self.runner.started) == jobs
        assert self.runner.jobs == {}


@pytest.fixture(autouse=True)
def _room(monkeypatch) -> None:
    monkeypatch.setattr(disk, "is_full", lambda: False)


def crash_everywhere(*, again_at: int = 0) -> int:
    """Crash the worker at its 1st, 2nd, ... checkpoint, and with `again_at` the next one too."""
    point = 0
    while True:
        point += 1
        scene = Scene()
        errand = scene.begun()
        if not dies(scene.worker(Checkpoints(at=point, then=die)), scene.clock):
            return point - 1
        if again_at:
            dies(scene.worker(Checkpoints(at=again_at, then=die)), scene.clock)
        scene.finish()
        scene.check(errand)
        assert errand.answer == "flowers"
        Errand.objects.all().delete()
        Intent.objects.all().delete()


def test_one_job_is_started_and_collected_wherever_a_worker_dies() -> None:
    assert crash_everywhere() >= 14


def test_one_job_is_started_and_collected_wherever_two_workers_die() -> None:
    for second in range(1, 16, 3):
        assert crash_everywhere(again_at=second) >= 14


def everywhere(then: Callable[[Scene, Errand], None]) -> int:
    """Begin anew for every point outside of transactions, and let something else happen at it."""
    point = 0
    while True:
        point += 1
        scene = Scene()
        errand = scene.begun()

        def happens(scene: Scene = scene, errand: Errand = errand) -> None:
            then(scene, errand)

        checkpoints = Checkpoints(at=point, then=happens, outside=True)
        scene.worker(checkpoints).sweep()
        if checkpoints.passed < point:
            return point - 1
        scene.finish()
        scene.check(errand, jobs=len(scene.runner.started))
        # One more at the most: that of a worker which was overtaken after it had looked.
        assert len(scene.runner.started) <= 2
        Errand.objects.all().delete()
        Intent.objects.all().delete()


def test_a_worker_that_sleeps_past_its_lease_starts_nothing_new() -> None:
    def others_finish(scene: Scene, errand: Errand) -> None:
        scene.clock.pass_(LEASE_AND_A_BIT)
        scene.finish()

    assert everywhere(others_finish) >= 10


def test_what_is_called_off_and_begun_again_at_any_point_has_its_own_job_and_answer() -> None:
    def change_of_mind(scene: Scene, errand: Errand) -> None:
        scene.runner.program = lambda spec: {"answer": spec.argv[1]}
        again(scene.worker(), errand)

    assert everywhere(change_of_mind) >= 10


def test_the_job_of_what_is_called_off_is_stopped_and_collected() -> None:
    scene = Scene(FakeRunner())
    errand = scene.begun()
    scene.sweep()
    call_off(scene.worker(), errand)
    scene.finish()
    scene.check(errand, "called off")
    assert scene.runner.stopped == [scene.runner.started[0].name]


def test_no_second_job_is_started_before_the_first_has_ended() -> None:
    scene = Scene(FakeRunner(stops_at_once=False))
    errand = scene.begun()
    scene.sweep()
    first = scene.runner.started[0].name
    again(scene.worker(), errand)
    scene.sweep(3)
    assert scene.runner.live == [first]
    scene.runner.die(first, Ending.STOPPED)
    scene.sweep()
    second = scene.runner.started[1]
    assert (scene.runner.live, second.argv) == ([second.name], ("errand", "2"))
    scene.runner.finish(second.name, ANSWER)
    scene.finish()
    scene.check(errand, jobs=2)


def test_what_a_job_reports_stands_in_the_row() -> None:
    scene = Scene(FakeRunner())
    errand = scene.begun()
    scene.sweep()
    scene.runner.report(scene.runner.live[0], done=1)
    scene.sweep()
    errand.refresh_from_db()
    assert errand.answer == "{'done': 1}"


def test_a_job_that_dies_or_vanishes_is_followed_by_another_ten_times() -> None:
    scene = Scene(FakeRunner())
    errand = scene.begun()
    for _ in range(3):
        scene.sweep()
        scene.runner.lose(scene.runner.live[0])
        scene.sweep()
    scene.runner.program = lambda spec: None
    scene.finish()
    scene.check(errand, "failed", jobs=10)
    assert errand.answer == "The errand died 10 times."


def test_a_job_that_needs_more_memory_than_it_may_have_is_not_tried_again() -> None:
    scene = Scene(FakeRunner())
    errand = scene.begun()
    scene.sweep()
    scene.runner.die(scene.runner.live[0], Ending.OUT_OF_MEMORY, why="It needed more.")
    scene.finish()
    scene.check(errand, "failed")
    assert errand.answer == "The errand failed. It needed more."


@pytest.mark.parametrize("ending", [Ending.STACK_ENDED, Ending.STOPPED])
def test_what_ends_with_its_stack_has_not_died(ending) -> None:
    scene = Scene(FakeRunner())
    errand = scene.begun()
    for _ in range(12):
        scene.sweep()
        scene.runner.die(scene.runner.live[0], ending)
        scene.sweep(2)
    errand.refresh_from_db()
    assert (errand.state, errand.launches) == ("running", 1)


def test_on_a_full_disk_none_is_started_and_what_it_ended_is_no_death(monkeypatch) -> None:
    scene = Scene(FakeRunner())
    errand = scene.begun()
    scene.sweep()
    monkeypatch.setattr(disk, "is_full", lambda: True)
    scene.runner.die(scene.runner.live[0])
    scene.sweep(10)
    errand.refresh_from_db()
    assert (errand.launches, errand.failed_since, len(scene.runner.started)) == (0, None, 1)
    monkeypatch.setattr(disk, "is_full", lambda: False)
    scene.runner.program = lambda spec: ANSWER
    scene.clock.pass_(timedelta(seconds=10))
    scene.finish()
    scene.check(errand, jobs=2)


def test_a_job_of_another_host_is_left_to_it_as_long_as_that_lives() -> None:
    scene = Scene(FakeRunner(host="there"))
    errand = scene.begun()
    scene.sweep()
    there = scene.runner
    pulse = Pulse.objects.create(name="worker@there:7", host="there", pid=7, at=timezone.now())
    scene.runner = FakeRunner(lambda spec: ANSWER, host="another")
    scene.sweep(3)
    silent_hosts.attend(scene.worker())
    assert call_off(scene.worker(), errand)
    scene.sweep(3)
    errand.refresh_from_db()
    assert (errand.job_host, errand.lane_host, scene.runner.started) == ("there", "there", [])
    assert errand.job in there.live  # nobody else can stop it, and nobody says that he has
    assert again(scene.worker(), errand)
    scene.sweep()
    pulse.delete()
    silent_hosts.attend(scene.worker())
    scene.finish()
    scene.check(errand)
    assert len(there.started) == 1


def test_rows_wait_for_an_outside_runner_in_its_lane() -> None:
    scene = Scene(FakeRunner(lane="cluster:prague"))
    errand = scene.begun()
    assert scene.worker().advance("toys.errand", errand.pk, lane="") == 0
    scene.worker().advance("toys.errand", errand.pk, lane="cluster:prague")
    assert len(scene.runner.started) == 1
