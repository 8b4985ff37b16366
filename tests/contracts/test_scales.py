"""Scales may be left to others: the backends that can, the fake too."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from clusters.backends.base import ObservedScale
from clusters.backends.extras import SupportsExternalScale
from clusters.backends.fake import FakeClusterBackend
from common.fence import Fence
from kube.client import KubeClient
from kube.fake.transport import FakeTransport
from kube.resources import DEPLOYMENTS, Ref
from tests.contracts.cluster_rigs import FakeRig, KubernetesRig, ready, wish

Rig = FakeRig | KubernetesRig


@pytest.fixture(params=[FakeRig, KubernetesRig])
def rig(request: pytest.FixtureRequest) -> Rig:
    made: Callable[[], Rig] = request.param
    return made()


def autoscale(rig: Rig, deployment: str, replicas: int) -> str:
    """Return who did it."""
    if isinstance(rig.cluster, FakeClusterBackend):
        rig.cluster.autoscale(deployment, replicas)
        return "autoscaler"
    assert isinstance(rig, KubernetesRig)
    client = KubeClient(FakeTransport(rig.server), field_manager="kube-controller-manager")
    ref = Ref(DEPLOYMENTS, deployment, "slipway")
    client.patch(ref, {"spec": {"replicas": replicas}}, subresource="scale")
    return "kube-controller-manager"


def test_others_are_followed_and_a_new_wish_of_ours_begins_anew(rig: Rig) -> None:
    cluster, spec = rig.cluster, wish(replicas=2, scale_turn=1, leaves_scale=True)
    assert isinstance(cluster, SupportsExternalScale)
    assert cluster.scale_of(spec.name) is None
    cluster.apply(spec, fence=Fence(1, 1))
    ready(cluster, spec)
    assert cluster.scale_of(spec.name) == ObservedScale(2, "", 1)

    by = autoscale(rig, spec.name, 4)
    cluster.apply(spec, fence=Fence(1, 2))
    ready(cluster, replace(spec, replicas=4))
    assert cluster.scale_of(spec.name) == ObservedScale(4, by, 1)

    again = replace(spec, replicas=3, scale_turn=2)
    cluster.apply(again, fence=Fence(1, 3))
    ready(cluster, again)
    assert cluster.scale_of(spec.name) == ObservedScale(3, "", 2)


def test_a_scale_set_past_slipway_holds_until_a_new_wish(rig: Rig) -> None:
    cluster, spec = rig.cluster, wish(replicas=2, scale_turn=1)
    assert isinstance(cluster, SupportsExternalScale)
    cluster.apply(spec, fence=Fence(1, 1))
    ready(cluster, spec)
    assert cluster.scale_of(spec.name) == ObservedScale(2, "", 1)

    by = autoscale(rig, spec.name, 4)
    cluster.apply(spec, fence=Fence(1, 2))
    ready(cluster, replace(spec, replicas=4))
    assert cluster.scale_of(spec.name) == ObservedScale(4, by, 1)

    again = replace(spec, scale_turn=2)
    cluster.apply(again, fence=Fence(1, 3))
    ready(cluster, again)
    assert cluster.scale_of(spec.name) == ObservedScale(2, "", 2)
