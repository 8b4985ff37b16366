"""Moves of whole machines and layouts of cards end as they would have, whatever fails meanwhile."""

import random
from datetime import timedelta

import pytest

from capacity import services
from capacity.models import Allocation
from capacity.reconcilers import CapacityPlanReconciler
from clusters.models import Drain, Node
from kube.fake.chaos import Chaos, Mishap
from kube.fake.controllers.machines import BEHAVIOUR, SILENT
from kube.resources import DISRUPTION_BUDGETS, NODES, Ref
from tests.capacity.test_cards import BERT, Operated
from tests.capacity.test_machines import SharedMachines
from tests.cast import SYSTEM
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, Crash, die, worker

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]
GUEST = {"app": "guest"}
MOVED = {"chat": {"gpu-0", "gpu-1", "gpu-2"}, "code": {"gpu-3"}}
BEFORE = {"chat": {"gpu-0", "gpu-1"}, "code": {"gpu-2", "gpu-3"}}


class MovingMachine(SharedMachines):
    """A plan that was applied: `gpu-2` goes from `code` to `chat`. `guest`: others have a pod on it."""

    def __init__(self, *, guest: bool = False) -> None:
        super().__init__(gpus=3)
        if guest:
            self._invite()
        self.load = {"chat": 3.9, "code": 0.5}
        self.pass_(30)
        services.apply_plan(self.plan(), actor=SYSTEM)

    def _invite(self) -> None:
        container = {
            "name": "main", "image": "registry.example/guest:1",
            "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}},
        }  # fmt: skip
        template = {
            "metadata": {"labels": GUEST},
            "spec": {"containers": [container], "nodeSelector": {"kubernetes.io/hostname": "gpu-2"}},
        }
        where = {"name": "guest", "namespace": "slipway"}
        chosen = {"matchLabels": GUEST}
        wanted = {"replicas": 1, "selector": chosen, "template": template}
        client = self.rig.cluster.client
        client.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": where, "spec": wanted})
        budget = {"maxUnavailable": 0, "selector": chosen}
        kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
        client.create({**kind, "metadata": where, "spec": budget})
        self.rig.server.advance(20)

    def lift(self) -> None:
        self.rig.cluster.client.delete(Ref(DISRUPTION_BUDGETS, "guest", "slipway"))

    def sweep_with_deaths(self, chance: random.Random, seconds: int) -> int:
        """Time passes; whoever takes the plan's steps dies now and then, and another takes over."""
        deaths = 0
        for _ in range(seconds // 2):
            plans = CapacityPlanReconciler(lambda _cluster: self.rig.cluster)
            try:
                worker([plans], self.scene.clock, Checkpoints(chance.randint(1, 20), die)).sweep()
            except Crash:
                deaths += 1
                self.scene.clock.pass_(LEASE_AND_A_BIT)
            self.beat()
            worker(self.scene.reconcilers(), self.scene.clock).sweep()
            self.rig.server.advance(2)
            self.scene.clock.pass_(timedelta(seconds=2))
            if self.plan().state in ("done", "failed"):
                break
        return deaths


def test_an_eviction_that_a_budget_refuses_holds_the_move_until_it_is_lifted() -> None:
    moving = MovingMachine(guest=True)
    moving.pass_(40)
    assert moving.plan().state == "releasing"
    assert "guest" in Drain.objects.get().problem
    assert moving.held() == BEFORE, "the machine is its service's until it is empty"
    moving.lift()
    moving.pass_(60)
    assert moving.plan().state == "done", moving.plan().reason
    assert moving.held() == MOVED


@pytest.mark.slow
def test_an_eviction_that_is_always_refused_fails_the_move_and_names_who_is_left() -> None:
    moving = MovingMachine(guest=True)
    moving.pass_(20)
    moving.scene.clock.pass_(timedelta(minutes=9))
    moving.pass_(30)
    (plan,) = moving.pool.plans.filter(state="failed")
    assert "guest" in plan.reason
    assert moving.held() == BEFORE, "the machine stays its service's, and cordoned until the plan is undone"


@pytest.mark.slow
def test_a_machine_that_is_lost_while_it_drains_fails_the_move_and_leaves_the_ledger() -> None:
    moving = MovingMachine()
    moving.pass_(2)
    moving.rig.cluster.client.delete(Ref(NODES, "gpu-2"))
    moving.pass_(60)
    (failed,) = moving.pool.plans.filter(state="failed")
    assert "gpu-2" in failed.reason
    assert not Allocation.objects.filter(machine="gpu-2").exists()
    assert moving.held() == {"chat": {"gpu-0", "gpu-1"}, "code": {"gpu-3"}}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_machine_moves_once_though_whoever_takes_the_steps_dies_at_random(seed: int) -> None:
    moving = MovingMachine()
    deaths = moving.sweep_with_deaths(random.Random(seed), 400)
    assert deaths > 0
    assert moving.plan().state == "done", moving.plan().reason
    assert moving.held() == MOVED
    assert moving.workers() == {"chat": 6, "code": 2}
    assert Drain.objects.count() == 1


MISHAPS = (
    Mishap.AWAY, Mishap.RESTARTED, Mishap.OVERLOADED, Mishap.FAILED, Mishap.UNAVAILABLE, Mishap.CONFLICT,
    Mishap.LOST, Mishap.LATE,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_machine_moves_once_though_its_api_server_fails_at_random(seed: int) -> None:
    moving, chance = MovingMachine(), random.Random(seed)
    calls = [chance.choice(MISHAPS) if chance.random() < 0.2 else None for _ in range(600)]
    chaos = Chaos(moving.rig.server, calls=calls)
    moving.rig.cluster.client.transport.faults.append(chaos)  # type: ignore[attr-defined]
    moving.pass_(60)
    assert len(chaos.calls) < 500, "it struck"
    chaos.calm()
    chaos.serve_late()
    moving.pass_(120)
    assert moving.plan().state == "done", moving.plan().reason
    assert moving.held() == MOVED
    assert moving.workers() == {"chat": 6, "code": 2}


@pytest.mark.slow
def test_a_machine_whose_agent_is_silent_while_it_drains_moves_when_it_is_heard_again() -> None:
    moving = MovingMachine()
    client, node = moving.rig.cluster.client, Ref(NODES, "gpu-2")
    client.patch(node, {"metadata": {"annotations": {BEHAVIOUR: SILENT}}})
    moving.pass_(60)
    assert moving.plan().state == "releasing"
    assert moving.held() == BEFORE
    client.patch(node, {"metadata": {"annotations": {BEHAVIOUR: None}}})
    moving.pass_(120)
    assert moving.plan().state == "done", moving.plan().reason
    assert moving.held() == MOVED


@pytest.mark.parametrize("state", ["draining", pytest.param("applying", marks=pytest.mark.slow), "returning"])
def test_a_layout_is_applied_though_the_agents_of_its_machine_die_in_one_of_its_steps(state: str) -> None:
    operated = Operated()
    row = operated.set(BERT)
    for _ in range(60):
        row.refresh_from_db()
        if row.state == state:
            break
        operated.pass_(1)
    assert row.state == state
    client, node = operated.rig.cluster.client, Ref(NODES, "gpu-0")
    client.patch(node, {"metadata": {"annotations": {BEHAVIOUR: SILENT}}})
    operated.pass_(60)
    assert Node.objects.get().state != "ready"
    client.patch(node, {"metadata": {"annotations": {BEHAVIOUR: None}}})
    operated.pass_(60)
    row.refresh_from_db()
    assert row.state == "applied", row.problem
    assert not Node.objects.get().is_cordoned
    assert operated.offered() == {"nvidia.com/mig-1g.10gb": "56"}
