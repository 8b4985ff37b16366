"""Deployments on a Kubernetes cluster, whoever writes late, twice or over others."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from clusters.backends.base import (
    CannotRun,
    ClusterUnreachable,
    RetryLater,
    StaleDeploymentFence,
)
from clusters.backends.kubernetes.backend import KubernetesCluster
from clusters.backends.kubernetes.manifests import fence_of
from clusters.backends.kubernetes.settings import KubernetesSettings
from common.fence import Fence
from kube.client import KubeClient
from kube.fake.kinds import BUILT_IN, ObjectKind
from kube.fake.server import FakeApiServer
from kube.fake.transport import FakeTransport, OnlyAt, after_doing, failing, pausing
from kube.fake.wire import ADMIN
from kube.resources import CONFIG_MAPS, DEPLOYMENTS, DISRUPTION_BUDGETS, SERVICES, Ref
from tests.clusters.kubernetes.test_manifests import SPEC
from tests.kube.accounts import grant

SETTINGS = KubernetesSettings(store_url="https://slipway.example", namespaces=("team-a",))
APPLIED = (SERVICES, DISRUPTION_BUDGETS, DEPLOYMENTS)


class World:
    """An API server, and as many control planes that write to it as a test wants."""

    def __init__(self, kinds: Sequence[ObjectKind] = BUILT_IN) -> None:
        self.server = FakeApiServer(kinds=kinds)
        for name in SETTINGS.all_namespaces:
            self.server.make("namespaces", {"metadata": {"name": name}})
        self.client = KubeClient(FakeTransport(self.server, user=ADMIN))
        self.user = grant(self.server, *SETTINGS.all_namespaces)
        self.cluster, self.transport = self.writer()

    def writer(self) -> tuple[KubernetesCluster, FakeTransport]:
        transport = FakeTransport(self.server, user=self.user)
        return KubernetesCluster(KubeClient(transport), SETTINGS), transport

    def items(self, *resources: Any, namespace: str = "slipway") -> list[dict[str, Any]]:
        """Return the items that the garbage collector leaves."""
        owners = {one["metadata"]["uid"] for one in self.client.list(CONFIG_MAPS, namespace=namespace).items}
        owners -= {
            one["metadata"]["uid"]
            for one in self.client.list(CONFIG_MAPS, namespace=namespace).items
            if "deletionTimestamp" in one["metadata"]
        }
        return [
            one
            for resource in resources or APPLIED
            for one in self.client.list(resource, namespace=namespace).items
            if all(owner["uid"] in owners for owner in one["metadata"].get("ownerReferences") or ())
        ]

    def collect_garbage(self) -> None:
        """Delete owned objects, then their owner, as a foreground deletion does."""
        for anchor in self.client.list(CONFIG_MAPS).items:
            if "deletionTimestamp" not in anchor["metadata"]:
                continue
            for resource in APPLIED:
                for one in self.client.list(resource).items:
                    owners = one["metadata"].get("ownerReferences") or ()
                    if any(owner["uid"] == anchor["metadata"]["uid"] for owner in owners):
                        self.client.delete(
                            Ref(resource, one["metadata"]["name"], one["metadata"]["namespace"])
                        )
            ref = Ref(CONFIG_MAPS, anchor["metadata"]["name"], anchor["metadata"]["namespace"])
            self.client.patch(ref, {"metadata": {"finalizers": None}})

    def deployment(self) -> dict[str, Any]:
        (found,) = self.items(DEPLOYMENTS)
        return found


@pytest.fixture
def world() -> World:
    return World()


def test_a_deployment_is_three_objects_with_one_owner_and_one_fence(world: World) -> None:
    world.cluster.apply(SPEC, fence=Fence(1, 1))
    found = world.items()
    assert [one["kind"] for one in found] == ["Service", "PodDisruptionBudget", "Deployment"]
    assert {fence_of(one) for one in found} == {Fence(1, 1)}
    (owner,) = {one["metadata"]["ownerReferences"][0]["uid"] for one in found}
    assert owner in {one["metadata"]["uid"] for one in world.client.list(CONFIG_MAPS).items}


def test_the_same_again_writes_nothing(world: World) -> None:
    for _ in range(2):
        world.cluster.apply(SPEC, fence=Fence(1, 1))
    before = [one["metadata"]["resourceVersion"] for one in world.items()]
    world.cluster.apply(SPEC, fence=Fence(1, 1))
    assert [one["metadata"]["resourceVersion"] for one in world.items()] == before


def test_what_is_no_longer_wanted_goes_and_what_others_set_stays(world: World) -> None:
    tolerant = replace(SPEC, labels={"cost-centre": "42"})
    world.cluster.apply(tolerant, fence=Fence(1, 1))
    found = world.deployment()
    others = KubeClient(FakeTransport(world.server, user=ADMIN), field_manager="somebody")
    others.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": SPEC.name, "namespace": "slipway", "annotations": {"theirs": "yes"}},
        }
    )
    world.cluster.apply(replace(SPEC, replicas=5), fence=Fence(1, 2))
    after = world.deployment()
    assert found["metadata"]["labels"]["cost-centre"] == "42"
    assert "cost-centre" not in after["metadata"]["labels"]
    assert after["metadata"]["annotations"]["theirs"] == "yes"
    assert after["spec"]["replicas"] == 5


def test_somebody_elses_object_of_the_name_is_never_touched(world: World) -> None:
    theirs = world.client.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": SPEC.name, "namespace": "slipway"},
            "spec": {"ports": [{"port": 80}]},
        }
    )
    with pytest.raises(CannotRun, match="has a Service chat-v2-0 that is not Slipway's"):
        world.cluster.apply(SPEC, fence=Fence(1, 1))
    assert world.items(SERVICES) == [theirs]


def test_a_namespace_that_slipway_was_not_given_is_refused(world: World) -> None:
    placement = replace(SPEC.placement, namespace="kube-system")
    with pytest.raises(CannotRun, match="lets Slipway use slipway, team-a, and not kube-system"):
        world.cluster.apply(replace(SPEC, placement=placement), fence=Fence(1, 1))


def test_removed_means_gone_from_every_namespace_it_may_be_in(world: World) -> None:
    placed = replace(SPEC, placement=replace(SPEC.placement, namespace="team-a"))
    world.cluster.apply(placed, fence=Fence(1, 1))
    world.cluster.remove(SPEC.name, fence=Fence(1, 2))
    assert world.items(namespace="team-a") == []
    with pytest.raises(StaleDeploymentFence):
        world.cluster.apply(placed, fence=Fence(1, 1))


Deed = Callable[[World], None]


def newer_replicas(world: World) -> None:
    """Apply again while the cluster says that it is too early, as the kernel does."""
    wanted = replace(SPEC, replicas=9)
    try:
        world.cluster.apply(wanted, fence=Fence(1, 7))
    except RetryLater:
        world.collect_garbage()
        world.cluster.apply(wanted, fence=Fence(1, 7))


def newer_removal(world: World) -> None:
    world.cluster.remove(SPEC.name, fence=Fence(1, 7))


def newest_of_all(world: World) -> None:
    newer_replicas(world)
    world.cluster.remove(SPEC.name, fence=Fence(1, 8))


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("newer", [newer_replicas, newer_removal, newest_of_all])
@pytest.mark.parametrize("late", ["apply", "remove"])
def test_a_writer_that_slept_past_its_lease_at_any_call_changes_nothing(
    begun: bool, newer: Deed, late: str
) -> None:
    at = 0
    while True:
        at += 1
        world = World()
        if begun:
            world.cluster.apply(replace(SPEC, replicas=1), fence=Fence(1, 2))
        slept: list[bool] = []

        def meanwhile(world: World = world, slept: list[bool] = slept) -> None:
            slept.append(True)
            newer(world)

        sleeper, transport = world.writer()
        transport.faults.append(pausing(at, meanwhile))
        try:
            if late == "apply":
                sleeper.apply(SPEC, fence=Fence(1, 3))
            else:
                sleeper.remove(SPEC.name, fence=Fence(1, 3))
        except (StaleDeploymentFence, RetryLater, ClusterUnreachable):
            pass
        if not slept:
            assert at > 3
            return
        if newer is newer_replicas:
            found = world.items()
            assert [one["kind"] for one in found] == ["Service", "PodDisruptionBudget", "Deployment"], at
            assert found[-1]["spec"]["replicas"] == 9, at
            # Whatever the late one left half done, the next look of the newer one mends.
            newer_replicas(world)
            assert {fence_of(one) for one in world.items()} == {Fence(1, 7)}, at
        else:
            assert world.items() == [], at


@pytest.mark.parametrize("answered", [True, False])
def test_wherever_an_answer_fails_asking_again_completes_it_once(answered: bool) -> None:
    """`answered`: the server says that it failed; otherwise it did it, and the answer is lost."""
    at = 0
    while True:
        at += 1
        world = World()
        fault = OnlyAt(
            at,
            failing(503, "etcdserver: leader changed", reason="ServiceUnavailable")
            if answered
            else after_doing(world.server, ADMIN),
        )
        world.transport.faults.append(fault)
        try:
            world.cluster.apply(SPEC, fence=Fence(1, 1))
        except ClusterUnreachable:
            world.cluster.apply(SPEC, fence=Fence(1, 1))
        else:
            if not fault.is_over:
                return
        assert len(world.items()) == 3, at
        assert world.deployment()["spec"]["replicas"] == SPEC.replicas
