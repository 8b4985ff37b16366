"""The fake's controllers, and the faults that can be ordered of it."""

from typing import Any

import pytest

from kube.base import Propagation
from kube.client import KubeClient
from kube.errors import (
    AlreadyExists,
    ApiForbidden,
    ApiUnreachable,
    EvictionRefused,
    HistoryLost,
    NamespaceEnding,
    NamespaceQuotaExceeded,
    NotFound,
    ServerFault,
    Throttled,
)
from kube.fake.cluster import SimulatedCluster, node
from kube.fake.controllers.machines import BEHAVIOUR
from kube.fake.transport import FakeTransport, after_doing, failing
from kube.fake.wire import RequestUser
from kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    Ref,
)

pytestmark = pytest.mark.any_database
MODEL = Ref(DEPLOYMENTS, "model", "default")


@pytest.fixture
def cluster() -> SimulatedCluster:
    gpus = {"nvidia.com/gpu": "4"}
    made = SimulatedCluster(nodes=[node("gpu-1", **gpus), node("gpu-2", **gpus)])
    made.advance(1)
    return made


@pytest.fixture
def transport(cluster: SimulatedCluster) -> FakeTransport:
    return FakeTransport(cluster)


@pytest.fixture
def client(transport: FakeTransport) -> KubeClient:
    return KubeClient(transport)


def deployment(
    replicas: int = 2, *, behaviour: str = "run", gpus: int = 0, image: str = "m:1", **spec: Any
) -> dict[str, Any]:
    labels = {"app": "model"}
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    template = {
        "metadata": {"labels": labels, "annotations": {BEHAVIOUR: behaviour}},
        "spec": {"containers": [{"name": "server", "image": image, "resources": resources}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "model", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template} | spec,
    }


def pods(client: KubeClient) -> list[dict[str, Any]]:
    return list(client.list(PODS, namespace="default", labels="app=model").items)


def condition(item: dict[str, Any], kind: str) -> tuple[str, str]:
    found = next(one for one in item["status"]["conditions"] if one["type"] == kind)
    return found["status"], found["reason"]


def test_a_deployment_becomes_available_and_says_so_after_it_is_seen(
    cluster: SimulatedCluster, client: KubeClient
) -> None:
    made = client.apply(deployment())
    assert made["status"] == {}
    cluster.advance(5)
    status = client.get(MODEL)["status"]
    assert (status["observedGeneration"], status["availableReplicas"], status["updatedReplicas"]) == (1, 2, 2)
    assert condition(client.get(MODEL), "Progressing") == ("True", "NewReplicaSetAvailable")
    assert {one["spec"]["nodeName"] for one in pods(client)} == {"gpu-1", "gpu-2"}


def test_a_rolling_update_never_has_fewer_than_it_must(cluster: SimulatedCluster, client: KubeClient) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    client.apply(deployment(strategy=rolling))
    cluster.advance(5)
    client.apply(deployment(strategy=rolling, image="m:2"))
    before = client.get(MODEL)["status"]
    assert before["observedGeneration"] == 1, "what it says is still of the spec before"
    most = 0
    for _ in range(60):
        cluster.advance(0.25)
        status = client.get(MODEL)["status"]
        assert status.get("availableReplicas", 0) >= 2
        most = max(most, status["replicas"])
    assert most == 3
    assert {one["spec"]["containers"][0]["image"] for one in pods(client)} == {"m:2"}
    client.apply(deployment(strategy=rolling))
    cluster.advance(10)
    sets = client.list(REPLICA_SETS, namespace="default").items
    revisions = {one["metadata"]["annotations"]["deployment.kubernetes.io/revision"] for one in sets}
    assert revisions == {"2", "3"}, "the way back takes the old ReplicaSet"


def test_what_never_starts_is_said_at_the_deadline(cluster: SimulatedCluster, client: KubeClient) -> None:
    client.apply(deployment(behaviour="imagepull", progressDeadlineSeconds=12))
    cluster.advance(11)
    assert condition(client.get(MODEL), "Progressing")[0] == "True"
    cluster.advance(3)
    assert condition(client.get(MODEL), "Progressing") == ("False", "ProgressDeadlineExceeded")


def test_a_pod_that_finds_no_room_says_why(cluster: SimulatedCluster, client: KubeClient) -> None:
    client.patch(Ref(NODES, "gpu-2"), {"spec": {"unschedulable": True}})
    client.apply(deployment(1, gpus=8))
    cluster.advance(2)
    (pod,) = pods(client)
    message = next(one["message"] for one in pod["status"]["conditions"] if one["type"] == "PodScheduled")
    assert message.startswith(
        "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable."
    )


def test_a_quota_lets_no_more_be_made(cluster: SimulatedCluster, client: KubeClient) -> None:
    client.apply(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "gpu", "namespace": "default"},
            "spec": {"hard": {"requests.nvidia.com/gpu": "1"}},
        }
    )
    client.apply(deployment(3, gpus=1))
    cluster.advance(5)
    assert len(pods(client)) == 1
    assert condition(client.get(MODEL), "ReplicaFailure") == ("True", "FailedCreate")
    one = pods(client)[0]
    again = {"apiVersion": "v1", "kind": "Pod", "spec": one["spec"]}
    again["metadata"] = {"name": "x", "namespace": "default"}
    with pytest.raises(
        NamespaceQuotaExceeded, match=r"exceeded quota: gpu, requested: requests.nvidia.com/gpu=1, used"
    ):
        client.create(again)


def test_what_is_owned_goes_with_its_owner(cluster: SimulatedCluster, client: KubeClient) -> None:
    client.apply(deployment())
    cluster.advance(5)
    client.delete(MODEL, propagation=Propagation.FOREGROUND)
    cluster.advance(0.5)
    assert client.get(MODEL)["metadata"]["finalizers"] == ["foregroundDeletion"]
    cluster.advance(5)
    with pytest.raises(NotFound):
        client.get(MODEL)
    assert pods(client) == []
    client.apply(deployment())
    cluster.advance(5)
    client.delete(MODEL, propagation=Propagation.ORPHAN)
    cluster.advance(5)
    assert len(pods(client)) == 2
    assert "ownerReferences" not in client.list(REPLICA_SETS, namespace="default").items[0]["metadata"]


def test_a_namespace_goes_after_what_it_holds(cluster: SimulatedCluster, client: KubeClient) -> None:
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    held = {"name": "a", "namespace": "team", "finalizers": ["slipway.io/hold"]}
    client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})
    client.delete(Ref(NAMESPACES, "team"))
    with pytest.raises(NamespaceEnding):
        client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": held | {"name": "b"}})
    cluster.advance(12)
    assert condition(client.get(Ref(NAMESPACES, "team")), "NamespaceFinalizersRemaining")[0] == "True"
    client.patch(Ref(CONFIG_MAPS, "a", "team"), {"metadata": {"finalizers": None}})
    cluster.advance(12)
    with pytest.raises(NotFound):
        client.get(Ref(NAMESPACES, "team"))


def test_one_pod_of_a_budget_goes_at_a_time(cluster: SimulatedCluster, client: KubeClient) -> None:
    client.apply(deployment(3))
    client.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "model", "namespace": "default"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "model"}}},
        }
    )
    cluster.advance(5)
    assert client.get(Ref(DISRUPTION_BUDGETS, "model", "default"))["status"]["disruptionsAllowed"] == 1
    first, second, _ = [Ref(PODS, one["metadata"]["name"], "default") for one in pods(client)]
    client.evict(first)
    with pytest.raises(EvictionRefused):
        client.evict(second)
    cluster.advance(5)
    client.evict(second)


def job(behaviour: str, **spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"annotations": {BEHAVIOUR: behaviour}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "j:1"}]},
    }
    metadata = {"name": "job", "namespace": "default"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"template": template} | spec,
    }


def job_conditions(client: KubeClient) -> list[tuple[str, str]]:
    conditions = client.get(Ref(JOBS, "job", "default"))["status"].get("conditions") or ()
    return [(one["type"], one["reason"]) for one in conditions if one["status"] == "True"]


def test_a_job_that_succeeds_is_complete_and_goes_after_its_time(
    cluster: SimulatedCluster, client: KubeClient
) -> None:
    client.create(job("succeed", ttlSecondsAfterFinished=4))
    cluster.advance(4)
    assert job_conditions(client) == [
        ("SuccessCriteriaMet", "CompletionsReached"),
        ("Complete", "CompletionsReached"),
    ]
    (pod,) = client.list(PODS, namespace="default", labels="job-name=job").items
    assert "finalizers" not in pod["metadata"], "it has been counted"
    cluster.advance(10)
    with pytest.raises(NotFound):
        client.get(Ref(JOBS, "job", "default"))


def test_a_job_that_fails_is_tried_again_later_and_then_said_to_have_failed(
    cluster: SimulatedCluster, client: KubeClient
) -> None:
    client.create(job("fail:3", backoffLimit=1))
    cluster.advance(6)
    status = client.get(Ref(JOBS, "job", "default"))["status"]
    assert (status["failed"], status.get("active", 0)) == (1, 0), "the next pod waits ten seconds"
    cluster.advance(15)
    assert job_conditions(client) == [
        ("FailureTarget", "BackoffLimitExceeded"),
        ("Failed", "BackoffLimitExceeded"),
    ]
    assert "completionTime" not in client.get(Ref(JOBS, "job", "default"))["status"]


def test_a_job_past_its_deadline_ends_its_pod(cluster: SimulatedCluster, client: KubeClient) -> None:
    client.create(job("run", activeDeadlineSeconds=3))
    cluster.advance(8)
    assert ("Failed", "DeadlineExceeded") in job_conditions(client)
    assert client.list(PODS, namespace="default", labels="job-name=job").items == ()


def test_a_job_that_is_deleted_in_the_foreground_goes_though_its_pod_runs(
    cluster: SimulatedCluster, client: KubeClient
) -> None:
    client.create(job("run"))
    cluster.advance(2)
    client.delete(Ref(JOBS, "job", "default"), propagation=Propagation.FOREGROUND)
    cluster.advance(40)
    assert client.list(PODS, namespace="default", labels="job-name=job").items == ()
    with pytest.raises(NotFound):
        client.get(Ref(JOBS, "job", "default"))


def test_pods_of_a_silent_machine_stay_as_they_are(cluster: SimulatedCluster, client: KubeClient) -> None:
    client.apply(deployment(1))
    cluster.advance(5)
    (pod,) = pods(client)
    cluster.kubelets.silent.add(pod["spec"]["nodeName"])
    place = Ref(PODS, pod["metadata"]["name"], "default")
    client.delete(place)
    cluster.advance(60)
    assert "deletionTimestamp" in client.get(place)["metadata"]
    assert len(pods(client)) == 2, "its replacement does not wait for it"
    client.delete(place, grace_seconds=0)
    with pytest.raises(NotFound):
        client.get(place)


def test_rights_are_those_of_roles(cluster: SimulatedCluster) -> None:
    cluster.make(
        "roles.rbac.authorization.k8s.io",
        {
            "metadata": {"name": "reader", "namespace": "default"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}],
        },
    )
    cluster.make(
        "rolebindings.rbac.authorization.k8s.io",
        {
            "metadata": {"name": "reader", "namespace": "default"},
            "roleRef": {"kind": "Role", "name": "reader"},
            "subjects": [{"kind": "User", "name": "eve"}],
        },
    )
    eve = KubeClient(FakeTransport(cluster, user=RequestUser("eve", ("system:authenticated",))))
    assert eve.list(PODS, namespace="default").items == ()
    assert eve.may("list", PODS, namespace="default").allowed
    assert not eve.may("create", PODS, namespace="default", subresource="eviction").allowed
    with pytest.raises(ApiForbidden, match='cannot create resource "pods/eviction"'):
        eve.evict(Ref(PODS, "a", "default"))
    with pytest.raises(ApiForbidden):
        eve.list(PODS)


def test_faults_come_when_they_are_ordered(
    cluster: SimulatedCluster, transport: FakeTransport, client: KubeClient
) -> None:
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
    transport.faults = [failing(500, "etcdserver: leader changed"), failing(429, "Too many requests")]
    with pytest.raises(ServerFault, match="leader changed"):
        client.create(item)
    with pytest.raises(Throttled):
        client.create(item)
    transport.faults = [after_doing(cluster, transport.user)]
    with pytest.raises(ApiUnreachable):
        client.create(item)
    with pytest.raises(AlreadyExists):
        client.create(item)
    transport.reachable = False
    with pytest.raises(ApiUnreachable):
        client.version()


def test_a_list_whose_pages_are_lost_begins_anew(cluster: SimulatedCluster) -> None:
    transport = FakeTransport(cluster)
    client = KubeClient(transport, page_items=2)
    for number in range(5):
        metadata = {"name": f"c{number}", "namespace": "default"}
        client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    def forget(call: Any) -> None:
        """Between the first page and the second."""
        if "continue" in call.query and cluster.storage.oldest == 0:
            late = {"name": "late", "namespace": "default"}
            client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": late})
            cluster.storage.compact()

    transport.faults = [forget]
    names = [one["metadata"]["name"] for one in client.list(CONFIG_MAPS, namespace="default").items]
    assert names == ["c0", "c1", "c2", "c3", "c4", "kube-root-ca.crt", "late"]
    with pytest.raises(HistoryLost), client.watch(CONFIG_MAPS, since="2") as changes:
        list(changes)


def test_a_log_is_what_the_pod_wrote_last(cluster: SimulatedCluster, client: KubeClient) -> None:
    client.apply(deployment(1))
    cluster.advance(3)
    name = pods(client)[0]["metadata"]["name"]
    with pytest.raises(ServerFault):
        client.logs(Ref(PODS, name, "default"), lines=2)
    cluster.logs["default", name] = "one\ntwo\nthree\n"
    assert client.logs(Ref(PODS, name, "default"), lines=2) == "two\nthree\n"
