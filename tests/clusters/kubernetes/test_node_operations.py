"""Operations on a machine of a Kubernetes cluster, and what is left to others."""

import json
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from clusters.backends.base import NodeCondition, ObservedNode, StaleDeploymentFence
from clusters.backends.kubernetes.standing import pod_of
from clusters.backends.node_operations import CordonedByOther, NodeCommand, OperationUnsupported, UnknownNode
from clusters.backends.observed_pods import CheckpointRequest, ObservedPod
from clusters.backends.placement import Taint, TaintEffect
from common.fence import Fence
from kube.fake.transport import failing
from kube.fake.wire import ADMIN
from kube.resources import NODES, PODS, Ref
from tests.clusters.kubernetes.test_backend import World
from tests.clusters.kubernetes.test_nodes import recorded

turns = count(1)
TAINT = Taint("slipway.io/faulty", TaintEffect.NO_SCHEDULE, "xid-79")


def order(by: str = "ada", turn: int | None = None) -> NodeCommand:
    return NodeCommand("op", Fence(1, next(turns) if turn is None else turn), by, "GPU 0 fell off the bus.")


@pytest.fixture
def world() -> World:
    world = World()
    world.server.plant("nodes", recorded())
    return world


def machine(world: World) -> ObservedNode:
    (found,) = world.cluster.nodes()
    assert isinstance(found, ObservedNode), found
    return found


def raw(world: World) -> dict[str, Any]:
    return world.client.get(Ref(NODES, machine(world).name))


def test_a_cordon_says_who_and_why_and_is_taken_back_by_them_alone(world: World) -> None:
    operations, uid = world.cluster.node_operations, machine(world).uid
    operations.cordon(uid, order())
    operations.cordon(uid, order())
    cordon = machine(world).cordon
    assert cordon is not None
    assert (cordon.by, cordon.reason) == ("ada", "GPU 0 fell off the bus.")
    assert raw(world)["spec"]["unschedulable"] is True
    for refused in (operations.cordon, operations.uncordon):
        with pytest.raises(CordonedByOther, match="ada has cordoned"):
            refused(uid, order(by="bob"))
    operations.uncordon(uid, order())
    assert machine(world).cordon is None
    assert "unschedulable" not in raw(world)["spec"]


def test_a_cordon_by_kubectl_is_theirs(world: World) -> None:
    world.client.patch(Ref(NODES, machine(world).name), {"spec": {"unschedulable": True}})
    with pytest.raises(CordonedByOther, match="Somebody past Slipway"):
        world.cluster.node_operations.uncordon(machine(world).uid, order())
    assert raw(world)["spec"]["unschedulable"] is True


def test_a_machine_that_another_installation_had_takes_our_orders(world: World) -> None:
    operations, uid = world.cluster.node_operations, machine(world).uid
    theirs = NodeCommand("op", Fence(7, 1_000_000), "ada", "GPU 0 fell off the bus.")
    operations.cordon(uid, theirs)
    operations.uncordon(uid, order())
    operations.cordon(uid, order(by="bob"))
    with pytest.raises(StaleDeploymentFence):
        operations.uncordon(uid, order(by="bob", turn=0))


def test_an_order_that_comes_late_changes_nothing(world: World) -> None:
    operations, uid = world.cluster.node_operations, machine(world).uid
    operations.cordon(uid, order(turn=500))
    with pytest.raises(StaleDeploymentFence):
        operations.uncordon(uid, order(turn=499))
    assert machine(world).cordon is not None


def test_a_taint_is_set_replaced_and_taken_back_beside_those_of_others(world: World) -> None:
    operations, uid = world.cluster.node_operations, machine(world).uid
    theirs = machine(world).taints
    assert theirs != ()
    operations.taint(uid, TAINT, order())
    operations.taint(uid, Taint(TAINT.key, TAINT.effect, "xid-48"), order())
    assert set(machine(world).taints) == {*theirs, Taint(TAINT.key, TAINT.effect, "xid-48")}
    operations.untaint(uid, TAINT, order())
    operations.untaint(uid, TAINT, order())
    assert machine(world).taints == theirs


def test_somebody_who_changes_the_machine_meanwhile_is_not_overwritten(world: World) -> None:
    uid, name = machine(world).uid, machine(world).name
    times = [0]

    def meddle(call: Any) -> None:
        if call.method == "PATCH" and times[0] < 2:
            times[0] += 1
            world.client.patch(Ref(NODES, name), {"metadata": {"labels": {"rack": str(times[0])}}})

    cluster, transport = world.writer()
    transport.faults.append(meddle)
    cluster.node_operations.taint(uid, TAINT, order())
    assert machine(world).labels["rack"] == "2"
    assert TAINT in machine(world).taints


def their_pod(world: World, **spec: Any) -> ObservedPod:
    world.client.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "theirs", "namespace": "team-a"},
            "spec": {
                "nodeName": machine(world).name,
                "containers": [{"name": "app", "image": "registry.example/app:1"}],
            }
            | spec,
        }
    )
    (pod,) = world.cluster.node_operations.pods(machine(world).uid)
    return pod


@pytest.mark.parametrize(
    ("spec", "has_gpu"),
    [
        ({"resources": {"limits": {"nvidia.com/gpu.shared": "1"}}}, True),
        ({"resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}, True),
        ({"resources": {"limits": {"nvidia.com/GRID_T4-1Q": "1"}}}, True),
        ({"resources": {"limits": {"volcano.sh/vgpu-memory": "4096"}}}, True),
        ({"resources": {"claims": [{"name": "gpu"}]}}, True),
        ({"resources": {"limits": {"memory": "1Gi"}}}, False),
        ({}, False),
    ],
)
def test_a_pod_has_a_gpu_whatever_the_way_it_was_given(spec: dict[str, Any], has_gpu: bool) -> None:
    claims = [{"name": "gpu", "resourceClaimName": "one"}] if "claims" in spec.get("resources", {}) else []
    pod = {
        "metadata": {"uid": "u", "name": "p", "namespace": "n"},
        "spec": {"containers": [{"name": "c", **spec}], "resourceClaims": claims},
    }
    assert pod_of(pod).has_gpu is has_gpu


def test_pods_of_others_are_told_with_what_is_lost_with_them(world: World) -> None:
    gpus = {"limits": {"nvidia.com/gpu": "2", "memory": "1Gi"}}
    containers = [{"name": "app", "image": "a:1", "resources": gpus}]
    pod = their_pod(world, containers=containers, volumes=[{"name": "cache", "emptyDir": {}}])
    assert (pod.namespace, pod.owner, pod.deployment) == ("team-a", "", "")
    assert (pod.gpus, pod.local_data) == ({"nvidia.com/gpu": 2}, ("cache",))


def test_another_pod_of_the_name_is_not_evicted_in_its_place(world: World) -> None:
    pod, uid = their_pod(world), machine(world).uid
    stale = replace(pod, uid="of-one-that-is-gone")
    for past_budgets in (False, True):
        answer = world.cluster.node_operations.evict(uid, stale, order(), past_budgets=past_budgets)
        assert answer.is_accepted
    (still,) = world.cluster.node_operations.pods(uid)
    assert (still.uid, still.is_leaving) == (pod.uid, False)
    assert world.cluster.node_operations.evict(uid, pod, order(), grace_seconds=7).is_accepted
    theirs = world.client.get(Ref(PODS, "theirs", "team-a"))["metadata"]
    assert theirs["deletionGracePeriodSeconds"] == 7


def test_a_pod_that_wants_a_checkpoint_is_told_once_and_its_answer_is_seen(world: World) -> None:
    pod, uid = their_pod(world), machine(world).uid
    ref, key = Ref(PODS, "theirs", "team-a"), "slipway.io/checkpoint"
    world.client.patch(ref, {"metadata": {"annotations": {key: "300"}}})
    (pod,) = world.cluster.node_operations.pods(uid)
    assert pod.checkpoint == CheckpointRequest(seconds=300)

    world.cluster.node_operations.ask_checkpoint(uid, replace(pod, uid="of-one-that-is-gone"), order())
    assert f"{key}-requested" not in world.client.get(ref)["metadata"]["annotations"]
    world.cluster.node_operations.ask_checkpoint(uid, pod, order(by="ada/drain-7"))
    assert world.client.get(ref)["metadata"]["annotations"][f"{key}-requested"] == "ada/drain-7"
    world.client.patch(ref, {"metadata": {"annotations": {f"{key}-done": "ada/drain-7"}}})
    (pod,) = world.cluster.node_operations.pods(uid)
    assert pod.checkpoint == CheckpointRequest(seconds=300, is_done=True)


def test_who_may_not_see_all_pods_is_told_what_to_grant(world: World) -> None:
    cluster, transport = world.writer()
    transport.faults.append(failing(403, "pods is forbidden", reason="Forbidden"))
    with pytest.raises(OperationUnsupported, match="manifest --feature drain"):
        cluster.node_operations.pods("07ad79ab-22cf-4958-b900-18ff82a3a52a")


def test_a_machine_that_is_not_there_and_what_the_api_cannot_do_are_told(world: World) -> None:
    with pytest.raises(UnknownNode, match="no machine of the uid nowhere"):
        world.cluster.node_operations.cordon("nowhere", order())
    with pytest.raises(OperationUnsupported, match="drain it and restart it"):
        world.cluster.node_operations.reboot(machine(world).uid, order())


def test_the_name_of_a_machine_that_was_made_anew_is_not_taken_for_it(world: World) -> None:
    uid, name = machine(world).uid, machine(world).name
    world.cluster.node_operations.cordon(uid, order())
    world.client.delete(Ref(NODES, name))
    world.server.make("nodes", {"metadata": {"name": name}})
    with pytest.raises(UnknownNode):
        world.cluster.node_operations.cordon(uid, order())
    assert json.dumps(raw(world)).count("unschedulable") == 0


def test_a_condition_is_written_beside_the_others_and_taken_away(world: World) -> None:
    world.transport.user = ADMIN
    operations, found = world.cluster.node_operations, machine(world)
    deadlock = NodeCondition("KernelDeadlock", "True", "DockerHung", "played")

    operations.set_condition(found.uid, "KernelDeadlock", deadlock, order())
    assert set(machine(world).conditions) == {*found.conditions, deadlock}

    operations.set_condition(found.uid, "KernelDeadlock", None, order())
    assert set(machine(world).conditions) == set(found.conditions)
