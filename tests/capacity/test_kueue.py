"""Kueue admits the workloads of a pool: its objects follow the pool's limits, and its words are repeated."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from capacity import services
from capacity.errors import InvalidPool, PlanNotOpen
from capacity.models import Allocation, Pool, Workload
from capacity.reconcilers import PoolReconciler
from capacity.reconcilers.workloads import WorkloadReconciler
from capacity.services.workloads import cancel_workload, submit_workload
from clusters.backends.kubernetes.kueue import why
from clusters.models import Cluster
from clusters.reconcilers.clusters import ClusterReconciler
from kube.fake.kinds import BUILT_IN
from kube.fake.kueue import kueue
from kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    LOCAL_QUEUES,
    NODES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
    Ref,
    Resource,
)
from tests.cast import SYSTEM, api, client_of, person, team
from tests.contracts.cluster_rigs import KubernetesRig
from tests.crash.harness import Clock, worker

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.any_database]
GPU = "nvidia.com/gpu"


class AdmittedByKueue:
    """Two pools of one machine of eight cards each, whose workloads Kueue admits. Tests are Kueue."""

    def __init__(self) -> None:
        self.clock = Clock(timezone.now())
        self.rig = KubernetesRig(machines=2, kinds=(*BUILT_IN, *kueue()))
        self.client = self.rig.cluster.client
        for number, name in enumerate(("train", "small")):
            self.client.patch(Ref(NODES, f"gpu-{number}"), {"metadata": {"labels": {"pool": name}}})
        self.cluster = Cluster.objects.create(name="far", kind="kubernetes", next_at=self.clock())
        self.pass_(4)
        self.train = self.pool("train", "training", guarantee=6, lending_limit=4)
        self.small = self.pool("small", "small_jobs", borrowing_limit=3)

    def pool(self, name: str, kind: str, **limits: Any) -> Pool:
        return services.create_pool(
            actor=SYSTEM, team=team("vision"), name=name, cluster=self.cluster, kind=kind,
            selector={"pool": name}, admission="kueue", **limits,
        )  # fmt: skip

    def pass_(self, seconds: int) -> None:
        def backend(_cluster: Cluster) -> Any:
            return self.rig.cluster

        kernel = worker(
            [
                ClusterReconciler(backend, lambda _: {}, lambda _: None),
                PoolReconciler(lambda _: self.rig.cluster.quotas),
                WorkloadReconciler(lambda _: self.rig.cluster.workloads),
            ],
            self.clock,
        )
        for _ in range(seconds):
            kernel.sweep()
            self.rig.server.advance(1)
            self.clock.pass_(timedelta(seconds=1))

    def submit(self, name: str, pool: Pool, **columns: Any) -> Workload:
        return submit_workload(
            actor=SYSTEM, team=pool.team, name=name, pool=pool, cards=4, command=["true"], **columns
        )

    def spec(self, resource: Resource, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.client.get(Ref(resource, f"slipway-{name}"))["spec"]
        return found

    def quotas(self, name: str) -> dict[str, dict[str, Any]]:
        """Limits of a ClusterQueue or Cohort by flavor."""
        resource = COHORTS if name == "cohort" else CLUSTER_QUEUES
        flavors = self.spec(resource, name)["resourceGroups"][0]["flavors"]
        found = {one["name"].removeprefix("slipway-"): dict(one["resources"][0]) for one in flavors}
        assert {one.pop("name") for one in found.values()} == {GPU}
        return found

    def say(self, row: Workload, *conditions: tuple[str, str, str, str]) -> None:
        """Publish conditions of the workload's Workload as Kueue would."""
        job = self.client.get(Ref(JOBS, f"workload-{row.pk}", "slipway"))
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"]}
        name = f"job-workload-{row.pk}"
        document = {
            "apiVersion": WORKLOADS.api_version,
            "kind": WORKLOADS.kind,
            "metadata": {
                "name": name,
                "namespace": "slipway",
                "ownerReferences": [{**owner, "uid": job["metadata"]["uid"], "controller": True}],
            },
            "spec": {"queueName": job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]},
        }
        self.client.apply(document, force=True, manager="kueue")
        at = "2026-11-27T10:00:00Z"
        told = [
            {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}
            for kind, status, reason, message in conditions
        ]
        status = {"status": {"conditions": told}}
        self.client.patch(Ref(WORKLOADS, name, "slipway"), status, subresource="status")

    def suspend(self, row: Workload, is_suspended: bool) -> None:
        """Suspend or resume its Job as Kueue would."""
        self.client.patch(Ref(JOBS, f"workload-{row.pk}", "slipway"), {"spec": {"suspend": is_suspended}})


@pytest.fixture
def operated() -> AdmittedByKueue:
    return AdmittedByKueue()


def test_limits_of_pools_are_quotas_of_a_cohort_and_follow_every_change(operated: AdmittedByKueue) -> None:
    operated.pass_(12)
    train, small = (f"pool-{pool.pk}" for pool in (operated.train, operated.small))
    assert operated.quotas(train) == {
        train: {"nominalQuota": 6, "lendingLimit": 2},
        small: {"nominalQuota": 0},
    }, "two cards that nobody is guaranteed belong to the cohort, so that two more may be lent"
    assert operated.quotas(small) == {
        small: {"nominalQuota": 8},
        train: {"nominalQuota": 0, "borrowingLimit": 3},
    }
    assert {name: one["nominalQuota"] for name, one in operated.quotas("cohort").items()} == {
        train: 2,
        small: 0,
    }
    assert operated.spec(RESOURCE_FLAVORS, train) == {
        "nodeLabels": {"pool": "train"},
        "topologyName": "slipway-cohort",
    }
    queue = operated.client.get(Ref(LOCAL_QUEUES, train, "slipway"))
    assert queue["spec"]["clusterQueue"] == f"slipway-{train}"
    assert operated.spec(CLUSTER_QUEUES, train)["preemption"]["reclaimWithinCohort"] == "Any"

    services.change_pool(operated.train, actor=SYSTEM, guarantee=8, lending_limit=None)
    services.stop(actor=SYSTEM, reason="Maintenance.")
    operated.pass_(2)
    assert operated.quotas(train)[train] == {"nominalQuota": 8}
    assert operated.spec(CLUSTER_QUEUES, train)["stopPolicy"] == "Hold"


def test_a_workload_waits_for_kueue_runs_when_admitted_gives_way_and_goes_on(
    operated: AdmittedByKueue,
) -> None:
    operated.pass_(2)
    row = operated.submit("tune", operated.train, priority=5)
    operated.pass_(12)
    job = operated.client.get(Ref(JOBS, f"workload-{row.pk}", "slipway"))
    assert job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "slipway-p5"
    assert "nodeSelector" not in job["spec"]["template"]["spec"], "where it goes is Kueue's matter"

    message = "couldn't assign flavors to pod set main: insufficient unused quota"
    operated.say(row, ("QuotaReserved", "False", "WaitingForQuota", message))
    operated.pass_(4)
    row.refresh_from_db()
    assert (row.state, job["spec"]["suspend"]) == ("starting", True)
    assert row.problem == f"Its queue has no free cards ({message})."

    operated.say(row, ("QuotaReserved", "True", "QuotaReserved", ""), ("Admitted", "True", "Admitted", ""))
    operated.suspend(row, False)
    operated.pass_(6)
    row.refresh_from_db()
    assert (row.state, row.runs, Allocation.objects.count()) == ("running", 1, 0)

    operated.suspend(row, True)
    operated.say(
        row,
        ("Evicted", "True", "Preempted", "Preempted to accommodate a workload"),
        ("Preempted", "True", "InCohortReclamation", ""),
        ("QuotaReserved", "False", "PendingEvaluation", ""),
    )
    operated.pass_(45)
    row.refresh_from_db()
    assert (row.state, row.runs) == ("starting", 2), row.problem
    assert "gave the cards back to the pool that they belong to" in row.problem

    operated.say(row, ("QuotaReserved", "True", "QuotaReserved", ""), ("Admitted", "True", "Admitted", ""))
    operated.suspend(row, False)
    operated.pass_(6)
    row.refresh_from_db()
    assert row.state == "running"
    cancel_workload(row, actor=SYSTEM)
    operated.pass_(40)
    row.refresh_from_db()
    assert row.state == "cancelled"
    assert not operated.client.list(JOBS, namespace="slipway").items


def test_the_page_and_rest_repeat_what_kueue_says_and_switching_back_removes_its_objects(
    operated: AdmittedByKueue,
) -> None:
    row = operated.submit("tune", operated.small)
    operated.pass_(14)
    operated.say(row, ("QuotaReserved", "False", "TopologyPlacementFailed", ""))
    queue = Ref(CLUSTER_QUEUES, f"slipway-pool-{operated.small.pk}")
    at = {"lastTransitionTime": "2026-11-27T10:00:00Z", "type": "Active"}
    usage = [{"name": "f", "resources": [{"name": GPU, "total": "6", "borrowed": "2"}]}]
    stopped = {**at, "status": "False", "reason": "FlavorNotFound", "message": "references missing flavors"}
    status = {"flavorsUsage": usage, "pendingWorkloads": 1, "admittedWorkloads": 2, "conditions": [stopped]}
    operated.client.patch(queue, {"status": status}, subresource="status")
    operated.pass_(12)

    browser = client_of(person("ada", vision="approver"))
    page = browser.get(f"/capacity/{operated.small.pk}/").content.decode()
    assert "No one machine has so many free cards." in page
    shown = api(person("dina", vision="developer")).get(f"capacity/pools/{operated.small.pk}/").json()
    assert shown["problem"] == "references missing flavors"
    assert (shown["quota"]["used"], shown["quota"]["borrowed"], shown["quota"]["pending"]) == (6, 2, 1)

    with pytest.raises(InvalidPool) as refused:
        services.change_pool(operated.small, actor=SYSTEM, admission="slipway")
    assert list(refused.value.fields) == ["admission"], "a workload waits in Kueue"
    with pytest.raises(PlanNotOpen):
        services.remove_pool(operated.small, actor=SYSTEM)
    row.refresh_from_db()
    cancel_workload(row, actor=SYSTEM)
    operated.pass_(10)
    for pool in (operated.small, operated.train):
        pool.refresh_from_db()
        services.change_pool(pool, actor=SYSTEM, admission="slipway")
    operated.pass_(12)
    for resource in (CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, RESOURCE_FLAVORS, TOPOLOGIES):
        assert not operated.client.list(resource).items, resource
    assert not Pool.objects.exclude(quota=None).exists()


def test_a_cluster_without_kueue_and_pools_that_it_cannot_know_are_refused_in_words(
    operated: AdmittedByKueue,
) -> None:
    bare = KubernetesRig()
    kernel = worker([PoolReconciler(lambda _: bare.cluster.quotas)], operated.clock)
    kernel.sweep()
    operated.train.refresh_from_db()
    assert "install Kueue" in operated.train.problem
    declared = {"inventory": [{"machine": "a", "cards": 8}], "kind": "training", "admission": "kueue"}
    local = Cluster.objects.get_or_create(name="local", defaults={"kind": "embedded"})[0]
    with pytest.raises(InvalidPool) as refused:
        services.create_pool(actor=SYSTEM, team=team("vision"), name="x", cluster=local, **declared)
    assert list(refused.value.fields) == ["admission"]


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        ([], "It waits in its queue."),
        ([("QuotaReserved", "True", "QuotaReserved")], "It has its cards, and waits for checks"),
        ([("QuotaReserved", "True", "x"), ("Admitted", "True", "Admitted")], ""),
        ([("Evicted", "True", "NodeFailures")], "Kueue evicted it: its machine failed."),
        (
            [("QuotaReserved", "False", "ExceedsMaxQuota")],
            "It wants more cards than its queue may ever have.",
        ),
    ],
)
def test_conditions_in_words(conditions: list[tuple[str, str, str]], words: str) -> None:
    told = [{"type": kind, "status": status, "reason": reason} for kind, status, reason in conditions]
    found = why({"spec": {}, "status": {"conditions": told}})
    assert found.startswith(words) if words else not found
