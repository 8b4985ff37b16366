"""StatefulSets and LeaderWorkerSets do on the fake cluster what they do on real ones."""

from typing import Any

import pytest

from kube.client import KubeClient
from kube.fake.cluster import SimulatedCluster, node
from kube.fake.controllers.machines import BEHAVIOUR
from kube.fake.extensions import EXTENSIONS
from kube.fake.kinds import BUILT_IN
from kube.fake.transport import FakeTransport
from kube.resources import (
    LEADER_WORKER_SETS,
    PODS,
    STATEFUL_SETS,
    Ref,
)

pytestmark = pytest.mark.any_database
LWS = Ref(LEADER_WORKER_SETS, "large", "default")
LABEL = "leaderworkerset.sigs.k8s.io/"


@pytest.fixture
def cluster() -> SimulatedCluster:
    made = SimulatedCluster(nodes=[node("gpu-1"), node("gpu-2")], kinds=(*BUILT_IN, *EXTENSIONS))
    made.advance(1)
    return made


@pytest.fixture
def client(cluster: SimulatedCluster) -> KubeClient:
    return KubeClient(FakeTransport(cluster))


def template(image: str = "m:1", behaviour: str = "run", **labels: str) -> dict[str, Any]:
    metadata = {"labels": labels, "annotations": {BEHAVIOUR: behaviour}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "server", "image": image}]}}


def stateful_set(replicas: int, image: str = "m:1") -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "st", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "serviceName": "st",
            "selector": {"matchLabels": {"app": "st"}},
            "template": template(image, app="st"),
        },
    }


def groups(replicas: int = 2, image: str = "m:1", behaviour: str = "run") -> dict[str, Any]:
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "large", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "leaderWorkerTemplate": {"size": 3, "workerTemplate": template(image, behaviour)},
        },
    }


def names(client: KubeClient) -> list[str]:
    return [one["metadata"]["name"] for one in client.list(PODS, namespace="default").items]


def images(client: KubeClient) -> set[str]:
    return {one["spec"]["containers"][0]["image"] for one in client.list(PODS, namespace="default").items}


def test_pods_of_a_stateful_set_come_in_order_and_go_from_the_last(
    cluster: SimulatedCluster, client: KubeClient
) -> None:
    client.apply(stateful_set(2))
    cluster.advance(0.5)
    assert names(client) == ["st-0"]
    cluster.advance(5)
    assert names(client) == ["st-0", "st-1"]
    assert client.get(Ref(STATEFUL_SETS, "st", "default"))["status"]["readyReplicas"] == 2
    client.apply(stateful_set(2, "m:2"))
    cluster.advance(1)
    going = [
        one for one in client.list(PODS, namespace="default").items if "deletionTimestamp" in one["metadata"]
    ]
    assert [one["metadata"]["name"] for one in going] == ["st-1"]
    cluster.advance(10)
    assert images(client) == {"m:2"}


def test_a_group_is_a_leader_and_its_workers_who_know_each_other(
    cluster: SimulatedCluster, client: KubeClient
) -> None:
    client.apply(groups())
    cluster.advance(10)
    assert names(client) == ["large-0", "large-0-1", "large-0-2", "large-1", "large-1-1", "large-1-2"]
    status = client.get(LWS)["status"]
    assert (status["replicas"], status["readyReplicas"]) == (2, 2)
    assert {one["type"]: one["status"] for one in status["conditions"]}["Available"] == "True"
    worker = client.get(Ref(PODS, "large-1-2", "default"))
    assert worker["metadata"]["labels"][f"{LABEL}group-index"] == "1"
    env = {one["name"]: one.get("value") for one in worker["spec"]["containers"][0]["env"]}
    assert (env["LWS_LEADER_NAME"], env["LWS_GROUP_SIZE"]) == ("large-1", "3")


def test_a_removed_set_leaves_no_pod_of_its_groups(cluster: SimulatedCluster, client: KubeClient) -> None:
    client.apply(groups())
    cluster.advance(10)
    client.delete(LWS)
    cluster.advance(10)
    assert names(client) == []
    assert client.list(STATEFUL_SETS, namespace="default").items == ()


def test_other_settings_reach_all_pods_of_all_groups(cluster: SimulatedCluster, client: KubeClient) -> None:
    client.apply(groups())
    cluster.advance(10)
    client.apply(groups(1, "m:2"))
    cluster.advance(40)
    assert (names(client), images(client)) == (["large-0", "large-0-1", "large-0-2"], {"m:2"})
