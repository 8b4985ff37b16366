"""A machine of the fake cluster that is not heard of is treated as a real cluster treats it."""

from typing import Any

import pytest

from kube.client import KubeClient
from kube.errors import NotFound
from kube.fake.cluster import SimulatedCluster, node
from kube.fake.controllers.machines import BEHAVIOUR, SILENT
from kube.fake.transport import FakeTransport
from kube.resources import EVENTS, LEASES, NODES, PODS, Ref

pytestmark = pytest.mark.any_database
SECONDS = 55
"""Until silence is noticed."""
GPU_1 = Ref(NODES, "gpu-1")


@pytest.fixture
def cluster() -> SimulatedCluster:
    made = SimulatedCluster(nodes=[node(f"gpu-{number}") for number in (1, 2, 3, 4)])
    made.advance(1)
    return made


@pytest.fixture
def client(cluster: SimulatedCluster) -> KubeClient:
    return KubeClient(FakeTransport(cluster))


def pod(client: KubeClient, name: str, *tolerations: dict[str, Any], on: str = "gpu-1") -> Ref:
    client.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "containers": [{"name": "server", "image": "m:1"}],
                "nodeSelector": {"kubernetes.io/hostname": on},
                "tolerations": list(tolerations),
            },
        }
    )
    return Ref(PODS, name, "default")


def for_seconds(seconds: int) -> dict[str, Any]:
    toleration = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    return toleration | {"tolerationSeconds": seconds}


def silence(client: KubeClient, *names: str) -> None:
    for name in names:
        client.patch(Ref(NODES, name), {"metadata": {"annotations": {BEHAVIOUR: SILENT}}})


def conditions(item: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one.get("reason", "")) for one in item["status"]["conditions"]}


def taints(client: KubeClient, name: str = "gpu-1") -> list[tuple[str, str]]:
    found = client.get(Ref(NODES, name))["spec"].get("taints") or ()
    return [(one["key"].removeprefix("node.kubernetes.io/"), one["effect"]) for one in found]


def test_silence_is_noticed_after_its_grace_and_the_machine_is_tainted(
    cluster: SimulatedCluster, client: KubeClient
) -> None:
    kept = pod(client, "kept")
    cluster.advance(3)
    silence(client, "gpu-1")
    cluster.advance(45)
    assert conditions(client.get(GPU_1))["Ready"][0] == "True"
    cluster.advance(SECONDS - 45)
    assert conditions(client.get(GPU_1))["Ready"] == ("Unknown", "NodeStatusUnknown")
    assert taints(client) == [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]
    found = client.get(kept)
    assert (found["status"]["phase"], conditions(found)["Ready"][0]) == ("Running", "False")
    reasons = [one["reason"] for one in client.list(EVENTS, fields="involvedObject.name=gpu-1").items]
    assert reasons == ["RegisteredNode", "NodeNotReady"]


def test_pods_go_when_they_tolerate_it_no_longer_and_hang_until_the_machine_is_back(
    cluster: SimulatedCluster, client: KubeClient
) -> None:
    short, patient = pod(client, "short", for_seconds(10)), pod(client, "patient")
    forever = pod(client, "forever", {"operator": "Exists"})
    cluster.advance(3)
    silence(client, "gpu-1")
    cluster.advance(SECONDS + 12)
    going = client.get(short)
    assert conditions(going)["DisruptionTarget"] == ("True", "DeletionByTaintManager")
    assert "deletionTimestamp" in going["metadata"]
    assert "deletionTimestamp" not in client.get(patient)["metadata"]
    cluster.advance(300)
    assert "deletionTimestamp" in client.get(patient)["metadata"]
    assert "deletionTimestamp" not in client.get(forever)["metadata"]
    client.patch(GPU_1, {"metadata": {"annotations": {BEHAVIOUR: None}}})
    cluster.advance(5)
    assert taints(client) == []
    assert conditions(client.get(forever))["Ready"][0] == "True"
    with pytest.raises(NotFound):
        client.get(short)


def test_a_machine_that_is_back_in_time_loses_no_pod(cluster: SimulatedCluster, client: KubeClient) -> None:
    kept = pod(client, "kept", for_seconds(60))
    cluster.advance(3)
    silence(client, "gpu-1")
    cluster.advance(SECONDS + 30)
    client.patch(GPU_1, {"metadata": {"annotations": {BEHAVIOUR: None}}})
    cluster.advance(100)
    found = client.get(kept)
    assert "deletionTimestamp" not in found["metadata"]
    assert conditions(found)["Ready"][0] == "True"
    events = client.list(EVENTS, namespace="default", fields="reason=TaintManagerEviction").items
    assert [one["message"] for one in events] == ["Cancelling deletion of Pod default/kept"]


def test_when_all_machines_are_silent_nobody_is_evicted(
    cluster: SimulatedCluster, client: KubeClient
) -> None:
    short = pod(client, "short", for_seconds(10))
    cluster.advance(3)
    silence(client, "gpu-1", "gpu-2", "gpu-3", "gpu-4")
    cluster.advance(SECONDS + 60)
    assert taints(client) == [("unreachable", "NoSchedule")]
    assert "deletionTimestamp" not in client.get(short)["metadata"]


def test_a_removed_machine_loses_its_lease_at_once_and_its_pods_later(
    cluster: SimulatedCluster, client: KubeClient
) -> None:
    orphan = pod(client, "orphan")
    cluster.advance(3)
    lease = Ref(LEASES, "gpu-1", "kube-node-lease")
    assert client.get(lease)["spec"]["holderIdentity"] == "gpu-1"
    client.delete(GPU_1)
    cluster.advance(1)
    with pytest.raises(NotFound):
        client.get(lease)
    cluster.advance(30)
    assert client.get(orphan)["status"]["phase"] == "Running"
    cluster.advance(40)
    with pytest.raises(NotFound):
        client.get(orphan)


def test_a_machine_that_says_it_is_not_ready_is_tainted_until_it_is(
    cluster: SimulatedCluster, client: KubeClient
) -> None:
    said = {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "runtime is down"}
    client.patch(GPU_1, {"status": {"conditions": [said]}}, subresource="status")
    cluster.advance(2)
    assert taints(client) == [("not-ready", "NoSchedule"), ("not-ready", "NoExecute")]
    client.patch(GPU_1, {"status": {"conditions": [said | {"status": "True"}]}}, subresource="status")
    cluster.advance(2)
    assert taints(client) == []
