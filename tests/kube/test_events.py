"""Events of the fake cluster, as controllers and kubelets of a real one write them."""

from typing import Any

import pytest

from kube.client import KubeClient
from kube.errors import ApiForbidden
from kube.fake.admission import PRIORITY_CLASSES
from kube.fake.cluster import SimulatedCluster, node
from kube.fake.controllers.machines import BEHAVIOUR
from kube.fake.transport import FakeTransport
from kube.resources import EVENTS, PODS, Ref

pytestmark = pytest.mark.any_database
PRIORITY = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}


@pytest.fixture
def cluster() -> SimulatedCluster:
    made = SimulatedCluster(nodes=[node("gpu-1", **{"nvidia.com/gpu": "4"})])
    made.advance(1)
    return made


@pytest.fixture
def client(cluster: SimulatedCluster) -> KubeClient:
    return KubeClient(FakeTransport(cluster))


def pod(name: str, *, behaviour: str = "run", gpus: int = 0, **spec: Any) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    container = {"name": "server", "image": "m:1", "resources": resources}
    metadata = {"name": name, "namespace": "default", "annotations": {BEHAVIOUR: behaviour}}
    body = {"containers": [container]} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def told(client: KubeClient, name: str) -> list[dict[str, Any]]:
    return list(client.list(EVENTS, namespace="default", fields=f"involvedObject.name={name}").items)


def reasons(client: KubeClient, name: str) -> list[str]:
    return [one["reason"] for one in told(client, name)]


def test_the_life_of_a_pod_is_told_by_scheduler_and_kubelet(
    cluster: SimulatedCluster, client: KubeClient
) -> None:
    client.create(pod("model"))
    cluster.advance(3)
    client.delete(Ref(PODS, "model", "default"))
    cluster.advance(3)
    assert reasons(client, "model") == ["Scheduled", "Pulling", "Pulled", "Created", "Started", "Killing"]
    scheduled, pulling, *_ = told(client, "model")
    assert (scheduled["source"], scheduled["reportingComponent"]) == ({}, "default-scheduler")
    assert scheduled["eventTime"]
    assert scheduled["message"] == "Successfully assigned default/model to gpu-1"
    assert pulling["source"] == {"component": "kubelet", "host": "gpu-1"}
    assert pulling["involvedObject"]["fieldPath"] == "spec.containers{server}"


def test_what_is_told_again_is_counted(cluster: SimulatedCluster, client: KubeClient) -> None:
    client.create(pod("model", behaviour="crashloop:3"))
    cluster.advance(50)
    (event,) = [one for one in told(client, "model") if one["reason"] == "BackOff"]
    assert (event["type"], event["count"]) == ("Warning", 4)
    assert event["firstTimestamp"] < event["lastTimestamp"]


def test_a_pod_without_a_place_is_told_of_in_a_series(cluster: SimulatedCluster, client: KubeClient) -> None:
    client.create(pod("large", gpus=8))
    cluster.advance(310)
    (event,) = told(client, "large")
    assert (event["reason"], event["type"], event["series"]["count"]) == ("FailedScheduling", "Warning", 2)
    assert event["message"].startswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")


def test_a_pod_that_its_machine_throws_out_says_why(cluster: SimulatedCluster, client: KubeClient) -> None:
    client.create(pod("greedy", behaviour="evicted"))
    cluster.advance(5)
    status = client.get(Ref(PODS, "greedy", "default"))["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
    assert told(client, "greedy")[-1]["message"] == status["message"]


def test_who_tells_too_much_of_one_thing_is_not_heard_any_more(
    cluster: SimulatedCluster, client: KubeClient
) -> None:
    item = cluster.make("pods", pod("noisy") | {"metadata": {"name": "noisy", "namespace": "default"}})
    for number in range(40):
        cluster.events.say("kubelet", item, "Strange", f"number {number}")
    found = told(client, "noisy")
    assert sum(one["count"] for one in found) == 25
    assert found[-1]["message"].startswith("(combined from similar events): ")


def test_events_go_after_an_hour(cluster: SimulatedCluster, client: KubeClient) -> None:
    client.create(pod("model"))
    cluster.advance(5)
    assert told(client, "model")
    cluster.advance(3700)
    assert told(client, "model") == []


def test_who_is_more_important_makes_others_go(cluster: SimulatedCluster, client: KubeClient) -> None:
    cluster.make(PRIORITY_CLASSES, PRIORITY | {"metadata": {"name": "high"}, "value": 1000})
    client.create(pod("low", gpus=4))
    cluster.advance(3)
    client.create(pod("urgent", gpus=4, priorityClassName="high"))
    cluster.advance(5)
    assert "Preempted" in reasons(client, "low")
    found = client.get(Ref(PODS, "urgent", "default"))
    assert (found["spec"]["priority"], found["spec"]["nodeName"]) == (1000, "gpu-1")


def test_a_priority_that_is_not_there_is_refused(client: KubeClient) -> None:
    with pytest.raises(ApiForbidden, match="no PriorityClass with name absent was found"):
        client.create(pod("model", priorityClassName="absent"))
