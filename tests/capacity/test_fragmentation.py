"""Scattered cards: counted by rack and over time, and freed by moving workloads that are real processes."""

from datetime import timedelta

import pytest

from capacity import services
from capacity.errors import InvalidPool, PlanNotOpen
from capacity.fragmentation import fragments, plan_defragmentation
from capacity.ledger import ledger_of
from capacity.models import CapacityPlan, CardSample, Pool, Workload
from capacity.planning.lending import CardGrant
from capacity.services.workloads import grant_cards
from clusters.backends.workloads import WorkloadSpec
from clusters.models import Node
from tests.capacity.test_workloads import Floor, floor
from tests.cast import SYSTEM, api, client_of, person
from tests.contracts.cluster_rigs import KubernetesRig

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]
__all__ = ["floor"]


@pytest.fixture
def scattered(floor: Floor) -> Floor:
    """Two machines of 4 cards in two racks, with a job of one card on each and one of two on the second."""
    inventory = [{"machine": f"small-{n}", "cards": 4, "rack": f"r{n}"} for n in (1, 2)]
    services.change_pool(floor.small, actor=SYSTEM, inventory=inventory)
    floor.small.refresh_from_db()
    for name, machine, cards in (("a", 1, (0,)), ("b", 2, (0,)), ("c", 2, (1, 2))):
        row = floor.submit(name, floor.small, len(cards), restart_seconds=10)
        assert grant_cards(row, CardGrant(str(row.pk), f"small-{machine}", cards), now=floor.clock())
    return floor


def running(floor: Floor) -> None:
    Workload.objects.update(state="running", started_at=floor.clock())


def test_jobs_that_could_start_are_counted_by_rack_and_kept_over_time(scattered: Floor) -> None:
    racks = fragments(ledger_of(scattered.cluster).of(scattered.small))
    assert [(one.rack, one.free, one.startable) for one in racks] == [
        ("r1", 3, {"1": 3, "2": 1, "4": 0, "8": 0, "16": 0}),
        ("r2", 1, {"1": 1, "2": 0, "4": 0, "8": 0, "16": 0}),
    ]
    scattered.until(lambda: CardSample.objects.filter(pool=scattered.small).count() == 2)
    scattered.clock.pass_(timedelta(minutes=6))
    scattered.until(lambda: CardSample.objects.filter(pool=scattered.small).count() == 4)


def test_a_dry_run_shows_moves_cost_and_gain_and_changes_nothing(scattered: Floor) -> None:
    running(scattered)
    plan = services.propose_defragmentation(scattered.small, actor=SYSTEM, cards=4, dry_run=True)
    assert [(c["name"], c["before"]["machine"], c["after"]) for c in plan.changes] == [
        ("a", "small-1", {"machine": "small-2", "cards": [3], "lender": ""})
    ]
    assert (plan.gain["cost"], plan.gain["freed"]) == (10, ["small-1"])
    assert (plan.gain["before"]["4"], plan.gain["after"]["4"]) == (0, 1)
    assert not CapacityPlan.objects.exists()


@pytest.mark.process
def test_a_workload_that_waits_too_long_has_a_machine_freed_and_undo_moves_back(scattered: Floor) -> None:
    Pool.objects.filter(pk=scattered.small.pk).update(defragment_after_seconds=20, lending_limit=0)
    Pool.objects.filter(pk=scattered.training.pk).update(lending_limit=0, state="off")
    scattered.until(lambda: Workload.objects.filter(state="running").count() == 3)
    row = scattered.submit("wide", scattered.small, 4)
    scattered.until(lambda: CapacityPlan.objects.filter(kind="fragments").exists())
    plan = CapacityPlan.objects.get(kind="fragments")
    services.apply_plan(plan, actor=SYSTEM)
    scattered.until(lambda: CapacityPlan.objects.get(pk=plan.pk).state == "done")
    assert scattered.held()["a"] == ["small-2:3"]
    scattered.until(lambda: scattered.state("wide") == "running")
    assert Workload.objects.get(name="a").runs == 2

    plan.refresh_from_db()
    with pytest.raises(PlanNotOpen, match="wide holds"):
        services.undo_plan(plan, actor=SYSTEM)
    Workload.objects.filter(pk=row.pk).update(cancelled_by="x")
    scattered.until(lambda: scattered.state("wide") == "cancelled")
    services.undo_plan(CapacityPlan.objects.get(pk=plan.pk), actor=SYSTEM)
    scattered.until(lambda: CapacityPlan.objects.get(pk=plan.pk).state == "undone")
    assert scattered.held()["a"] == ["small-1:0"]


def test_exempt_workloads_machines_in_trouble_and_budgets_stay_as_they_are(scattered: Floor) -> None:
    running(scattered)

    def moved(**options: object) -> list[str]:
        plan = plan_defragmentation(scattered.small, cards=4, machines=1, **options)  # type: ignore[arg-type]
        return [change["name"] for change in plan.changes]

    assert moved() == ["a"], "the cheapest machine"
    assert moved(blocked=lambda one: "pdb" if one.name == "a" else "") == ["c", "b"]
    assert moved(blocked=lambda one: "pdb" if one.name in "ab" else "") == []
    Workload.objects.filter(name="a").update(is_preemptible=False)
    assert moved() == ["c", "b"]
    Workload.objects.filter(name="b").update(state="checkpointing")
    assert moved() == []
    Node.objects.update(is_cordoned=True)
    Workload.objects.update(state="running", is_preemptible=True)
    assert moved() == []


def test_a_disruption_budget_that_allows_none_blocks_the_move_of_a_workload() -> None:
    rig = KubernetesRig()
    spec = WorkloadSpec(name="workload-1", run=1, argv=("true",), machine="gpu-0", cards=1)
    rig.cluster.workloads.start(spec)
    rig.server.advance(3)
    assert rig.cluster.workloads.blocked_by("workload-1") == ""
    selector = {"matchLabels": {"batch.kubernetes.io/job-name": "workload-1"}}
    rig.cluster.client.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "keep", "namespace": "slipway"},
            "spec": {"minAvailable": 1, "selector": selector},
        }
    )
    rig.server.advance(3)
    assert rig.cluster.workloads.blocked_by("workload-1") == "slipway/keep"


def test_a_machine_whose_cards_are_held_stays_in_its_pool(scattered: Floor) -> None:
    for inventory in (
        [{"machine": "small-1", "cards": 4}],
        [{"machine": f"small-{n}", "cards": 2} for n in (1, 2)],
    ):
        with pytest.raises(InvalidPool) as refused:
            services.change_pool(scattered.small, actor=SYSTEM, inventory=inventory)
        assert list(refused.value.fields) == ["inventory"]


def test_what_cannot_be_freed_is_refused_by_its_field(scattered: Floor) -> None:
    for field, wish in (("cards", {"cards": 9}), ("machines", {"cards": 4, "machines": 0})):
        with pytest.raises(InvalidPool) as refused:
            services.propose_defragmentation(scattered.small, actor=SYSTEM, **wish)
        assert list(refused.value.fields) == [field]
    with pytest.raises(PlanNotOpen):
        services.propose_defragmentation(scattered.small, actor=SYSTEM, cards=4, machines=1)


def test_the_page_and_rest_show_fragments_and_propose_moves(scattered: Floor) -> None:
    running(scattered)
    ada = client_of(person("ada", vision="approver"))
    address = f"/capacity/{scattered.small.pk}/fragments/"
    assert "r2" in ada.get(address).content.decode()
    assert "small-2 3" in ada.get(f"{address}?cards=4&machines=1").content.decode()
    assert not CapacityPlan.objects.exists()
    assert ada.post(address, {"cards": 9, "machines": 1}).status_code == 422
    assert ada.post(address, {"cards": 4, "machines": 1}).status_code == 302
    assert CapacityPlan.objects.get().kind == "fragments"

    rest = api(person("dina", vision="developer"))
    shown = rest.get(f"capacity/pools/{scattered.small.pk}/fragments/").json()
    assert [rack["startable"]["1"] for rack in shown["racks"]] == [3, 1]
    dry = rest.post(f"capacity/pools/{scattered.small.pk}/defragment/", {"cards": 4, "dry_run": True}).json()
    assert dry["id"] is None
    assert dry["gain"]["after"]["4"] == 1
