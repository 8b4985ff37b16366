"""Services share whole machines of a cluster: drained, relabelled and filled, by a fake API server."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from capacity import services
from capacity.errors import InvalidPool
from capacity.ledger import ledger_of
from capacity.model_files import cached_services
from capacity.models import Allocation, CapacityPlan, Pool
from capacity.reconcilers import CapacityPlanReconciler, PoolReconciler
from clusters.models import Cluster, Deployment, Drain, Node
from gateway.models import Gateway, Route
from kube.fake.controllers.machines import BEHAVIOUR
from kube.fake.transport import client_of as kube_client_of
from kube.resources import JOBS, NODES, PODS, Ref
from tests.capacity.shared_pool import Shared
from tests.cast import SYSTEM, api, client_of, person
from tests.clusters.world import Scene, version_of
from tests.contracts.cluster_rigs import KubernetesRig
from tests.crash.harness import worker

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.any_database]
LABEL = "slipway.io/service"


class SharedMachines(Shared):
    """Four machines of 8 GPUs: two of `chat`, two of `code`, each with two workers."""

    def __init__(self, *, gpus: int = 4, models_differ: bool = False) -> None:
        self.gpus = gpus
        """Of each worker."""
        self.files_come = True
        self.rig = KubernetesRig(machines=4)
        self.outside = kube_client_of(self.rig.server)
        """Somebody else's client, which no fault of ours strikes."""
        self.rig.label("pool", "serving")
        for index, service in enumerate(("chat", "chat", "code", "code")):
            self.label(f"gpu-{index}", LABEL, service)
        self.scene = Scene()
        self.scene.world = self.rig.cluster  # type: ignore[assignment]
        self.scene.cluster = Cluster.objects.create(name="far", kind="kubernetes", next_at=self.scene.clock())
        self.gateway = Gateway.objects.create(cluster=self.scene.cluster)
        for name in ("chat", "code"):
            row = self.deployment(name)
            if models_differ:
                Deployment.objects.filter(pk=row.pk).update(version=version_of(row.team, f"{name}:v1"))
            Route.objects.create(
                gateway=self.gateway, service=name, stable_target=row.name, stable_version="story:v1",
                writer=0, writer_turn=0, changed_at=timezone.now(),
            )  # fmt: skip
        self.load = {"chat": 2.0, "code": 2.0}
        self.scene.pass_(10, by=1)
        self.pool = services.create_pool(
            actor=SYSTEM, team=self.scene.team, name="whole", cluster=self.scene.cluster,
            granularity="machine", selector={"pool": "serving"},
        )  # fmt: skip
        for name in ("chat", "code"):
            services.set_membership(self.pool, actor=SYSTEM, service=name, guarantee=1, limit=4)
        Pool.objects.update(dwell_seconds=0)

    def deployment(self, service: str, **pod: Any) -> Deployment:
        return self.scene.deployment(
            f"{service}-v1", service=service, replicas=4, resources={"gpus_per_worker": self.gpus},
            pod={"node_selector": {LABEL: service}, **pod},
        )  # fmt: skip

    def label(self, machine: str, key: str, value: str) -> None:
        self.rig.cluster.client.patch(Ref(NODES, machine), {"metadata": {"labels": {key: value}}})

    def pass_(self, seconds: float, *, by: float = 2.0) -> None:
        kernel = worker(
            [
                PoolReconciler(),
                CapacityPlanReconciler(lambda _cluster: self.rig.cluster),
                *self.scene.reconcilers(),
            ],
            self.scene.clock,
        )
        for _ in range(int(seconds / by)):
            self.beat()
            kernel.sweep()
            self.end_prefetches()
            self.rig.server.advance(by)
            self.scene.clock.pass_(timedelta(seconds=by))

    def end_prefetches(self) -> None:
        """Jobs that bring files succeed, where they may."""
        for pod in self.outside.list(PODS, labels="slipway.io/prefetch").items:
            if self.files_come and BEHAVIOUR not in pod["metadata"].get("annotations", {}):
                ref = Ref(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])
                self.outside.patch(ref, {"metadata": {"annotations": {BEHAVIOUR: "succeed"}}})

    def standing(self) -> dict[str, Counter[str]]:
        """Ready pods of each service by machine."""
        found: dict[str, Counter[str]] = {}
        for pod in self.rig.cluster.client.list(PODS, labels="slipway.io/service").items:
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]:
                where = found.setdefault(pod["metadata"]["labels"]["slipway.io/service"], Counter())
                where[pod["spec"]["nodeName"]] += 1
        return found

    def held(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for row in Allocation.objects.filter(worker=""):
            found.setdefault(row.service, set()).add(row.machine)
        return found


@pytest.fixture
def whole() -> SharedMachines:
    return SharedMachines()


def test_a_machine_goes_from_the_idle_to_the_busy_service_with_its_workers_and_back_by_undo(
    whole: SharedMachines,
) -> None:
    whole.pass_(12)
    assert whole.held() == {"chat": {"gpu-0", "gpu-1"}, "code": {"gpu-2", "gpu-3"}}
    assert Allocation.objects.count() == 32, "all cards of a machine are its service's"

    whole.load = {"chat": 3.9, "code": 0.5}
    whole.pass_(30)
    plan = whole.plan()
    assert plan.kind == "machines"
    moved = {one["service"]: (one["after"], one["gives"], one["gets"]) for one in plan.changes}
    assert moved == {"chat": (6, [], ["gpu-2"]), "code": (2, ["gpu-2"], [])}

    ops = client_of(person("ops", superuser=True))
    page = ops.get(f"/capacity/{whole.pool.pk}/").content.decode()
    assert "Guaranteed machines" in page
    assert page.count("gpu-2") > 1, "the table and the plan name it"

    services.apply_plan(plan, actor=SYSTEM)
    whole.pass_(60)
    plan.refresh_from_db()
    assert plan.state == "done", plan.reason
    assert whole.standing() == {
        "chat": Counter({"gpu-0": 2, "gpu-1": 2, "gpu-2": 2}),
        "code": Counter({"gpu-3": 2}),
    }
    assert whole.held() == {"chat": {"gpu-0", "gpu-1", "gpu-2"}, "code": {"gpu-3"}}
    assert not Node.objects.filter(is_cordoned=True).exists()
    assert Drain.objects.get().state == "drained"

    whole.load = {"chat": 2.0, "code": 1.0}
    services.undo_plan(plan, actor=SYSTEM)
    whole.pass_(60)
    plan.refresh_from_db()
    assert plan.state == "undone"
    assert whole.held() == {"chat": {"gpu-0", "gpu-1"}, "code": {"gpu-2", "gpu-3"}}
    assert whole.workers() == {"chat": 4, "code": 4}


def test_files_come_to_a_machine_before_it_is_taken_and_plans_know_who_has_them() -> None:
    whole = SharedMachines(models_differ=True)
    whole.files_come = False
    whole.load = {"chat": 3.9, "code": 0.5}
    whole.pass_(30)
    services.apply_plan(whole.plan(), actor=SYSTEM)
    whole.pass_(20)
    (job,) = whole.rig.cluster.client.list(JOBS, labels="slipway.io/prefetch").items
    assert job["metadata"]["annotations"]["slipway.io/node"] == "gpu-2"
    assert whole.standing()["code"] == Counter({"gpu-2": 2, "gpu-3": 2}), "who gives it still serves"
    assert not Drain.objects.exists()

    whole.files_come = True
    whole.pass_(60)
    assert whole.standing()["chat"]["gpu-2"] == 2
    assert not whole.rig.cluster.client.list(JOBS, labels="slipway.io/prefetch").items
    nodes = Node.objects.filter(name__in=["gpu-1", "gpu-2", "gpu-3"])
    assert {
        node.name: cached_services([node], {"chat": "chat-v1"}).get(node.pk, frozenset()) for node in nodes
    } == {"gpu-1": {"chat"}, "gpu-2": {"chat"}, "gpu-3": frozenset()}


def test_a_machine_is_taken_although_its_files_do_not_come() -> None:
    whole = SharedMachines(models_differ=True)
    whole.files_come = False
    whole.load = {"chat": 3.9, "code": 0.5}
    whole.pass_(30)
    plan = whole.plan()
    services.apply_plan(plan, actor=SYSTEM)
    whole.pass_(300, by=4)
    plan.refresh_from_db()
    assert plan.state == "done", plan.reason


def test_the_kill_switch_cancels_drains_and_leaves_machines_with_their_services(
    whole: SharedMachines,
) -> None:
    whole.load = {"chat": 3.9, "code": 0.5}
    whole.pass_(30)
    services.apply_plan(whole.plan(), actor=SYSTEM)
    whole.pass_(2)
    services.stop(actor=SYSTEM, reason="Not now.")
    whole.pass_(20)
    assert whole.plan().state == "stopped"
    assert whole.held() == {"chat": {"gpu-0", "gpu-1"}, "code": {"gpu-2", "gpu-3"}}
    assert not Node.objects.filter(is_cordoned=True).exists()


def test_a_machine_that_somebody_relabelled_is_not_taken_from_its_new_service(whole: SharedMachines) -> None:
    whole.load = {"chat": 3.9, "code": 0.5}
    whole.pass_(30)
    plan = whole.plan()
    Allocation.objects.filter(machine="gpu-2").update(service="other")
    services.apply_plan(plan, actor=SYSTEM)
    whole.pass_(4)
    plan.refresh_from_db()
    assert plan.state == "failed"
    assert "gpu-2" in plan.reason
    assert whole.workers() == {"chat": 4, "code": 4}


def test_services_whose_pods_select_no_machines_of_theirs_and_hosts_of_one_machine_are_refused(
    whole: SharedMachines,
) -> None:
    Deployment.objects.filter(service="chat").update(pod={})
    with pytest.raises(InvalidPool) as refused:
        services.set_membership(whole.pool, actor=SYSTEM, service="chat", guarantee=1, limit=4)
    assert f"{LABEL}=chat" in refused.value.fields["service"][0]
    whole.load = {"chat": 3.9, "code": 0.5}
    whole.pass_(30)
    assert not CapacityPlan.objects.exists()
    with pytest.raises(InvalidPool) as refused:
        services.set_membership(whole.pool, actor=SYSTEM, service="code", guarantee=5, limit=5)
    assert "guarantee" in refused.value.fields
    local = Cluster.objects.create(name="one", kind="embedded")
    with pytest.raises(InvalidPool) as refused:
        services.create_pool(
            actor=SYSTEM, team=whole.scene.team, name="x", cluster=local, granularity="machine",
            selector={"pool": "serving"},
        )  # fmt: skip
    assert list(refused.value.fields) == ["granularity"]
    with pytest.raises(InvalidPool) as refused:
        services.create_pool(
            actor=SYSTEM, team=whole.scene.team, name="x", cluster=whole.scene.cluster, kind="training",
            selector={"pool": "serving"},
        )  # fmt: skip
    assert list(refused.value.fields) == ["selector"], "a machine belongs to one pool"


def test_workers_of_services_hold_cards_of_machines_of_workloads_in_the_ledger(
    whole: SharedMachines,
) -> None:
    """A card has one holder, whoever it is, from the worker's start until it is gone."""
    services.remove_pool(Pool.objects.get(), actor=SYSTEM)
    training = services.create_pool(
        actor=SYSTEM, team=whole.scene.team, name="train", cluster=whole.scene.cluster, kind="training",
        selector={"pool": "serving"},
    )  # fmt: skip
    whole.pass_(12)
    assert Allocation.objects.exclude(worker="").count() == 32
    (machine,) = [one for one in ledger_of(whole.scene.cluster).machines if one.name == "gpu-0"]
    assert machine.shares == [("chat", list(range(8)))]
    assert (machine.free, machine.others) == ((), 0)
    held = api(person("ada", superuser=True)).get("capacity/allocations/").json()["results"][0]
    assert (held["service"], held["workload"], held["lender"]) == ("chat", None, "train")
    page = client_of(person("ops", superuser=True)).get(f"/capacity/{training.pk}/").content.decode()
    assert "chat" in page

    Deployment.objects.filter(service="chat").update(replicas=2, generation=2, next_at=whole.scene.clock())
    whole.pass_(40)
    assert Allocation.objects.filter(service="chat").count() == 8
    assert Allocation.objects.filter(service="code").count() == 16
