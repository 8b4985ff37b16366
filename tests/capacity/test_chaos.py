"""Moves of capacity end as they would have, whatever dies meanwhile: a worker, the cluster's API."""

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise

import pytest
from django.utils import timezone

from accounts.models import Team
from capacity import services
from capacity.models import Allocation, CapacityPlan, Pool, Workload
from capacity.reconcilers import CapacityPlanReconciler, PoolReconciler
from capacity.reconcilers.workloads import WorkloadReconciler
from capacity.services.workloads import submit_workload
from clusters.backends.base import ObservedState
from clusters.backends.fake_workloads import FakeWorkloads
from clusters.backends.workloads import WorkloadSpec
from clusters.models import Cluster, Deployment, Node
from tests.capacity.shared_pool import Shared
from tests.cast import SYSTEM
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, Clock, Crash, crashes, die, worker
from tests.releases.world import undone

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]


class Moving(Shared):
    """A plan that was applied: `chat` gets a worker that `code` gives away."""

    def __init__(self) -> None:
        super().__init__()
        self.load = {"chat": 2.85, "code": 0.3}
        self.pass_(30)
        services.apply_plan(self.plan(), actor=SYSTEM)

    def state(self) -> str:
        return str(CapacityPlan.objects.get().state)

    def turn(self, *, by: float = 2, checkpoints: Checkpoints | None = None) -> None:
        """Sweep once; a worker that dies in it leaves its lease to another."""
        self.beat()
        try:
            worker([CapacityPlanReconciler()], self.scene.clock, checkpoints).sweep()
        except Crash:
            self.scene.clock.pass_(LEASE_AND_A_BIT)
        worker(self.scene.reconcilers(), self.scene.clock).sweep()
        self.scene.clock.pass_(timedelta(seconds=by))

    def until(
        self, *states: str, checkpoints: Checkpoints | None = None, seconds: float = 120, by: float = 2
    ) -> None:
        """Sweep until the plan is in one of these."""
        left = seconds
        while self.state() not in states:
            assert left > 0, (self.state(), self.workers())
            self.turn(by=by, checkpoints=checkpoints)
            left -= by

    @contextmanager
    def told_anew(self) -> Iterator[None]:
        """The same beginning for every story, no earlier than the real clock, by which services go."""
        outside, at = copy.deepcopy(vars(self.scene.world)), self.scene.clock.at
        with undone():
            yield
        self.scene.world.__dict__.update(outside)
        self.scene.clock.at = max(at, timezone.now())


@pytest.fixture
def moving() -> Moving:
    return Moving()


def test_a_plan_is_done_once_wherever_the_worker_that_takes_its_steps_dies(moving: Moving) -> None:
    whole = Checkpoints()
    with moving.told_anew():
        moving.until("done", checkpoints=whole)
    for number in crashes():
        if number > whole.passed:
            break
        with moving.told_anew():
            moving.until("done", checkpoints=Checkpoints(number, die), seconds=200)
            assert moving.workers() == {"chat": 4, "code": 2}, number
            generations = dict(Deployment.objects.values_list("service", "generation"))
            assert set(generations.values()) == {2}, f"scaled twice after a death at {number}"
    assert number > 10


@pytest.mark.parametrize("worlds", [5, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_nothing_moves_after_the_kill_switch_and_undo_gives_back_the_start(
    moving: Moving, worlds: int
) -> None:
    """Throw the switch at any moment of a plan whose steps are taken by workers that die now and then."""
    ends = set()
    for seed in range(worlds):
        chance = random.Random(seed)
        with moving.told_anew():
            for _ in range(chance.randint(0, 8)):
                moving.turn(by=1, checkpoints=Checkpoints(chance.randint(1, 60), die))
            services.stop(actor=SYSTEM)
            moving.turn(by=1)
            moving.turn(by=1)
            left = moving.workers()
            for _ in range(5):
                moving.turn()
                assert moving.workers() == left, f"seed {seed}: within two looks, a second each"
            # The plan itself says so at its next look.
            ends.add(state := moving.state())
            assert state in ("stopped", "done"), f"seed {seed}"
            services.resume(actor=SYSTEM)
            services.undo_plan(CapacityPlan.objects.get(), actor=SYSTEM)
            for _ in range(20):
                moving.turn()
            assert moving.workers() == {"chat": 3, "code": 3}, f"seed {seed}"
            assert CapacityPlan.objects.earliest("pk").state == "undone"
    assert "stopped" in ends


def test_a_cluster_that_is_out_of_reach_for_a_while_delays_a_step_and_repeats_none(moving: Moving) -> None:
    moving.scene.world.reachable = False
    with pytest.raises(AssertionError):
        moving.until("done", seconds=60)
    assert moving.state() == "releasing"
    moving.scene.world.reachable = True
    moving.until("done", seconds=300)
    assert moving.workers() == {"chat": 4, "code": 2}
    assert len(moving.scene.world.observe("chat-v1")) == 4


def test_workers_that_die_while_they_start_are_waited_for(moving: Moving) -> None:
    moving.scene.world.starts_as = ObservedState.STARTING
    moving.until("acquiring")
    moving.until("acquiring", "done")
    moving.scene.pass_(4)
    new = next(one for one in moving.scene.world.observe("chat-v1") if one.state == ObservedState.STARTING)
    for _ in range(3):
        moving.scene.world.crash(new.name)
        moving.scene.pass_(4)
    assert moving.state() == "acquiring"
    moving.scene.world.turn(new.name, ObservedState.READY)
    moving.until("done", seconds=200)
    assert moving.workers() == {"chat": 4, "code": 2}


def test_a_machine_that_is_lost_while_its_worker_drains_frees_the_worker(moving: Moving) -> None:
    moving.scene.world.drains_at_once = False
    with pytest.raises(AssertionError):
        moving.until("acquiring", seconds=30)
    draining = [w for w in moving.scene.world.observe("code-v1") if w.state == ObservedState.DRAINING]
    assert len(draining) == 1
    moving.scene.world.end(draining[0].name)
    moving.until("done", seconds=200)
    assert moving.workers() == {"chat": 4, "code": 2}


def test_metrics_that_grow_stale_in_the_middle_leave_the_plan_to_its_end(moving: Moving) -> None:
    """Its steps go by workers that are ready, not by their figures."""
    moving.load = {"chat": 0.0, "code": 0.0}
    moving.until("done")
    assert moving.workers() == {"chat": 4, "code": 2}


def test_workers_that_never_come_fail_the_plan_after_its_limit(moving: Moving) -> None:
    moving.scene.world.starts_as = ObservedState.STARTING
    moving.until("failed", seconds=800, by=40)
    assert "10" in CapacityPlan.objects.get().reason


def test_a_plan_that_failed_is_undone_however_late(moving: Moving) -> None:
    moving.scene.world.starts_as = ObservedState.STARTING
    moving.until("failed", seconds=800, by=40)
    plan = CapacityPlan.objects.get()
    assert moving.workers() == {"chat": 4, "code": 2}
    moving.scene.clock.pass_(timedelta(hours=1))
    moving.scene.world.starts_as = ObservedState.READY
    back = services.undo_plan(plan, actor=SYSTEM)
    # Services go by the real clock, which stands still beside that of the story.
    CapacityPlan.objects.filter(pk=back.pk).update(state_since=moving.scene.clock())
    moving.pass_(40)
    plan.refresh_from_db()
    assert (plan.state, plan.undone_by.state) == ("undone", "done"), plan.undone_by.reason
    assert moving.workers() == {"chat": 3, "code": 3}


class Trainer(FakeWorkloads):
    """Work off items, one a second of the test's clock; a checkpoint keeps those that are done."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.kept: dict[str, int] = {}
        """Items of the last checkpoint, by workload."""
        self.began: dict[tuple[str, int], tuple[float, int]] = {}
        self.begins: list[tuple[str, int, int]] = []
        """Workload, run, item at which the run begins."""

    def start(self, spec: WorkloadSpec) -> None:
        if (spec.name, spec.run) not in self.runs:
            at = self.kept.get(spec.name, 0)
            self.began[spec.name, spec.run] = (self._clock().timestamp(), at)
            self.begins.append((spec.name, spec.run, at))
        super().start(spec)

    def done(self, name: str, run: int) -> int:
        since, at = self.began[name, run]
        return at + int(self._clock().timestamp() - since)

    def ask_checkpoint(self, name: str, run: int, request: str) -> None:
        if self.observe(name, run).answered != request:
            self.kept[name] = self.done(name, run)
        super().ask_checkpoint(name, run, request)


@pytest.mark.parametrize(
    "preemptions", [6, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
def test_preemptions_lose_no_item_though_workers_die_at_random(preemptions: int) -> None:
    """A workload gives its cards back again and again; each run begins at the last checkpoint."""
    clock, chance = Clock(timezone.now()), random.Random(27)
    cluster = Cluster.objects.get_or_create(name="local", defaults={"kind": "embedded"})[0]
    Node.objects.create(cluster=cluster, uid="one", name="one", seen_at=timezone.now())
    team = Team.objects.get_or_create(name="vision")[0]
    made = {"cluster": cluster, "kind": "training", "inventory": [{"machine": "m1", "cards": 8}]}
    pool = services.create_pool(actor=SYSTEM, team=team, name="training", **made)
    Pool.objects.update(state="automatic")
    trainer = Trainer(clock)
    reconcilers = [PoolReconciler(), CapacityPlanReconciler(), WorkloadReconciler(lambda _cluster: trainer)]
    order = {"actor": SYSTEM, "team": team, "pool": pool, "cards": 8, "command": ["train"]}
    long = submit_workload(name="long", checkpoint_seconds=60, **order)

    def pass_(seconds: float) -> None:
        for _ in range(int(seconds / 5)):
            deaths = Checkpoints(chance.randint(1, 400), die)
            try:
                worker(reconcilers, clock, deaths).sweep()
            except Crash:
                clock.pass_(LEASE_AND_A_BIT)
            clock.pass_(timedelta(seconds=5))

    pass_(20)
    for number in range(preemptions):
        urgent = submit_workload(name=f"urgent-{number}", priority=9, **order)
        waited = 0
        while Workload.objects.get(pk=urgent.pk).state != "running":
            pass_(10)
            assert (waited := waited + 10) < 600, Workload.objects.values("name", "state", "problem")
        assert Allocation.objects.values("workload").distinct().count() == 1, "no card has two holders"
        name = f"workload-{urgent.pk}"
        ended = trainer.runs[name, 1]
        trainer.runs[name, 1] = type(ended)(state=type(ended.state).SUCCEEDED)
        while Workload.objects.get(pk=long.pk).state != "running":
            pass_(10)
            assert (waited := waited + 10) < 1_200
    long.refresh_from_db()
    mine = [(run, at) for name, run, at in trainer.begins if name == f"workload-{long.pk}"]
    assert len(mine) == long.runs > preemptions
    assert [run for run, _at in mine] == sorted({run for run, _at in mine}), "no run began twice"
    assert all(later > at for (_, at), (_, later) in pairwise(mine)), "each goes on"
    assert not Workload.objects.filter(state="failed").exists()
