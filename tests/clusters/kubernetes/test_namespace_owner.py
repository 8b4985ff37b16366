"""Two installations of Slipway, and one namespace."""

import pytest

from clusters.backends.base import CannotRun
from clusters.backends.kubernetes.backend import KubernetesCluster
from clusters.backends.kubernetes.namespace_owner import MARK
from clusters.models import Cluster
from clusters.reconcilers.clusters import RunChecks
from clusters.states import CheckResult
from common.fence import Fence
from kube.resources import CONFIG_MAPS, SECRETS, Ref
from tests.clusters.kubernetes.test_backend import SETTINGS, World
from tests.clusters.kubernetes.test_manifests import SPEC


def of(world: World, installation: str) -> KubernetesCluster:
    return KubernetesCluster(world.client, SETTINGS, store_token="sesame", installation=installation)


def test_whoever_comes_second_is_told_and_writes_nothing() -> None:
    world = World()
    first, second = of(world, "aaaa"), of(world, "bbbb")
    assert first.own() == ()
    before = world.client.list(CONFIG_MAPS).items, world.client.list(SECRETS).items

    told = RunChecks(lambda row: second).observe(Cluster(), None)  # type: ignore[arg-type]

    assert {(one.name, one.result) for one in told} == {
        (f"namespace {name}", CheckResult.FAILED) for name in SETTINGS.all_namespaces
    }
    assert "belongs to another installation of Slipway (aaaa" in told[0].detail
    with pytest.raises(CannotRun, match="a namespace of its own"):
        second.apply(SPEC, fence=Fence(9, 9))
    assert (world.client.list(CONFIG_MAPS).items, world.client.list(SECRETS).items) == before
    first.apply(SPEC, fence=Fence(1, 1))


def test_what_a_gone_installation_left_is_the_next_ones_once_its_mark_is_deleted() -> None:
    world = World()
    of(world, "aaaa").own()
    second = of(world, "bbbb")
    assert second.own()
    for name in SETTINGS.all_namespaces:
        world.client.delete(Ref(CONFIG_MAPS, MARK, name))
    assert second.own() == ()
    assert of(world, "aaaa").own()
