"""Workers that span machines: a LeaderWorkerSet, each of whose groups is one worker."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from clusters.backends.base import (
    CannotRun,
    ClusterUnreachable,
    DeploymentSpec,
    ObservedState,
    RetryLater,
    StaleDeploymentFence,
)
from clusters.backends.kubernetes.groups import FOLLOWS
from clusters.backends.placement import Resources
from common.fence import Fence
from kube.fake.controllers.machines import BEHAVIOUR
from kube.fake.extensions import EXTENSIONS
from kube.fake.kinds import BUILT_IN
from kube.fake.transport import pausing
from kube.resources import DISRUPTION_BUDGETS, LEADER_WORKER_SETS, NODES, PODS, SERVICES, Ref
from serving.follower import argv_of
from serving.worker_command import WorkerCommand
from tests.clusters.kubernetes.test_backend import SPEC, World
from tests.contracts.cluster_rigs import KubernetesRig, wish

pytestmark = pytest.mark.any_database


@pytest.fixture
def rig() -> KubernetesRig:
    return KubernetesRig(machines=4, kinds=(*BUILT_IN, *EXTENSIONS))


def group(replicas: int = 2, **how: Any) -> DeploymentSpec:
    fields = {"engine": "vllm", "resources": Resources(gpus=8)}
    return wish(replicas=replicas, nodes=2, **fields | how)


def pods(rig: KubernetesRig, selector: str) -> list[dict[str, Any]]:
    return list(rig.cluster.client.list(PODS, namespace="slipway", labels=selector).items)


def until_ready(rig: KubernetesRig, spec: DeploymentSpec) -> None:
    for _ in range(20):
        found = rig.cluster.observe(spec.name)
        if len(found) == spec.replicas and all(one.state == ObservedState.READY for one in found):
            return
    raise AssertionError(found)


def test_each_group_is_one_worker_and_only_leaders_are_sent_requests(rig: KubernetesRig) -> None:
    spec = group()
    rig.cluster.apply(spec, fence=Fence(1, 1))
    until_ready(rig, spec)
    leaders = pods(rig, f"slipway.io/deployment={spec.name}")
    followers = pods(rig, f"{FOLLOWS}={spec.name}")
    assert (len(leaders), len(followers)) == (2, 2)
    client = rig.cluster.client
    service = client.get(Ref(SERVICES, spec.name, "slipway"))["spec"]["selector"]
    assert all(service.items() <= one["metadata"]["labels"].items() for one in leaders)
    assert not any(service.items() <= one["metadata"]["labels"].items() for one in followers)
    budget = client.get(Ref(DISRUPTION_BUDGETS, spec.name, "slipway"))
    assert budget["status"]["expectedPods"] == 4
    assert budget["status"]["disruptionsAllowed"] == 1
    machines = {one["spec"]["nodeName"] for one in (*leaders, *followers)}
    assert len(machines) == 4
    ours = [one for one in rig.cluster.pods().pods if one.deployment == spec.name]
    assert sum(one.gpus["nvidia.com/gpu"] for one in ours) == 32


def test_leader_and_followers_are_told_who_they_are(rig: KubernetesRig) -> None:
    spec = group()
    rig.cluster.apply(spec, fence=Fence(1, 1))
    until_ready(rig, spec)
    leader = pods(rig, f"slipway.io/deployment={spec.name}")[0]["spec"]["containers"][0]
    follower = pods(rig, f"{FOLLOWS}={spec.name}")[0]["spec"]["containers"][0]
    assert "--master-address=$(LWS_LEADER_ADDRESS)" in leader["command"]
    assert "--node-rank=$(LWS_WORKER_INDEX)" in follower["command"]
    assert follower["command"][:3] == ["python", "-m", "serving.follower"]
    assert "readinessProbe" not in follower
    said = [
        one.replace("$(LWS_WORKER_INDEX)", "1").replace("$(", "").replace(")", "")
        for one in follower["command"]
    ]
    argv = argv_of(WorkerCommand.parse(said[3:]), "vllm")
    for flag in (
        "--headless", "--nnodes=2", "--node-rank=1", "--master-addr=LWS_LEADER_ADDRESS",
        "--tensor-parallel-size=8", "--pipeline-parallel-size=2", "--distributed-executor-backend=mp",
    ):  # fmt: skip
        assert flag in argv
    assert not any(one.startswith("--uds") for one in argv)


def test_a_group_that_does_not_run_says_which_of_its_pods_and_why(rig: KubernetesRig) -> None:
    client = rig.cluster.client
    for one in client.list(NODES).items[1:]:
        client.patch(Ref(NODES, one["metadata"]["name"]), {"spec": {"unschedulable": True}})
    spec = group(replicas=1)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    for _ in range(5):
        (worker,) = rig.cluster.observe(spec.name)
    assert worker.state == ObservedState.STARTING
    assert worker.reason.startswith(
        f"Its pod {worker.name}-1, one of 2 that work as one: None of the 4 machines"
    )
    for one in client.list(NODES).items[1:]:
        client.patch(Ref(NODES, one["metadata"]["name"]), {"spec": {"unschedulable": None}})
    until_ready(rig, spec)


def test_a_group_that_lost_a_pod_begins_anew_and_counts_as_restarted(rig: KubernetesRig) -> None:
    spec = group(replicas=1)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    until_ready(rig, spec)
    (follower,) = pods(rig, f"{FOLLOWS}={spec.name}")
    ref = Ref(PODS, follower["metadata"]["name"], "slipway")
    rig.cluster.client.patch(ref, {"metadata": {"annotations": {BEHAVIOUR: "crashloop:1"}}})
    said = []
    for _ in range(20):
        said += [one.reason for one in rig.cluster.observe(spec.name)]
    (worker,) = rig.cluster.observe(spec.name)
    assert (worker.state, worker.restarts) == (ObservedState.READY, 1)
    assert any(f"Its group began anew, since its pod {ref.name} failed." in one for one in said), said


def test_a_cluster_without_leader_worker_sets_says_what_is_missing() -> None:
    rig = KubernetesRig(machines=2)
    with pytest.raises(CannotRun, match="span 2 machines each, and the cluster has no LeaderWorkerSet"):
        rig.cluster.apply(group(), fence=Fence(1, 1))
    extensions = next(one for one in rig.cluster.checks() if one.name == "extensions")
    assert "Without LeaderWorkerSet no worker can span machines." in extensions.detail


def test_a_removed_group_stays_away_however_late_a_writer_wakes(rig: KubernetesRig) -> None:
    spec = group(replicas=1)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    until_ready(rig, spec)
    rig.cluster.remove(spec.name, fence=Fence(1, 3))
    with pytest.raises(StaleDeploymentFence):
        rig.cluster.apply(spec, fence=Fence(1, 2))
    rig.server.advance(60)
    assert rig.cluster.observe(spec.name) == ()
    assert pods(rig, f"{FOLLOWS}={spec.name}") == []
    assert rig.cluster.client.list(LEADER_WORKER_SETS, namespace="slipway").items == ()


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_writer_that_slept_at_any_call_does_not_bring_an_old_group_back(is_removed: bool) -> None:
    at = 0
    while True:
        at += 1
        world = World(kinds=(*BUILT_IN, *EXTENSIONS))
        spec = replace(SPEC, engine="vllm", nodes=2)
        slept: list[int] = []

        def meanwhile(world: World = world, spec: DeploymentSpec = spec, slept: list[int] = slept) -> None:
            slept.append(1)
            if is_removed:
                world.cluster.remove(spec.name, fence=Fence(1, 7))
            else:
                world.cluster.apply(replace(spec, replicas=9), fence=Fence(1, 7))

        sleeper, transport = world.writer()
        transport.faults.append(pausing(at, meanwhile))
        with suppress(StaleDeploymentFence, RetryLater, ClusterUnreachable):
            sleeper.apply(spec, fence=Fence(1, 3))
        if not slept:
            assert at > 3
            return
        found = world.items(LEADER_WORKER_SETS)
        if is_removed:
            assert found == [], at
        else:
            assert [one["spec"]["replicas"] for one in found] == [9], at


def test_a_group_whose_pods_may_not_be_made_says_why(rig: KubernetesRig) -> None:
    quota = {"metadata": {"name": "none", "namespace": "slipway"}, "spec": {"hard": {"pods": "0"}}}
    rig.cluster.client.create({"apiVersion": "v1", "kind": "ResourceQuota", **quota})
    spec = group(replicas=1)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    rig.server.advance(5)
    with pytest.raises(CannotRun, match=r"Its pods cannot be made: .*exceeded quota: none"):
        rig.cluster.apply(spec, fence=Fence(1, 1))


def test_a_deployment_whose_pods_may_not_be_made_says_why_under_every_fence(rig: KubernetesRig) -> None:
    quota = {"metadata": {"name": "none", "namespace": "slipway"}, "spec": {"hard": {"pods": "0"}}}
    rig.cluster.client.create({"apiVersion": "v1", "kind": "ResourceQuota", **quota})
    spec = replace(group(replicas=1), nodes=1)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    rig.server.advance(5)
    # A fence is an annotation, and annotations of Deployments count in their generation.
    for turn in (2, 3):
        with pytest.raises(CannotRun, match=r"Its pods cannot be made: .*exceeded quota: none"):
            rig.cluster.apply(spec, fence=Fence(1, turn))
        rig.server.advance(1)
    rig.cluster.apply(replace(spec, replicas=2), fence=Fence(1, 4))
