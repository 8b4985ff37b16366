"""A cluster's machines are those that its backend sees."""

from dataclasses import replace

import pytest

from clusters.backends.base import ObservedGpu
from clusters.backends.fake import NODE
from clusters.models import Cluster, Gpu, Node
from clusters.states import NodeState
from tests.clusters.world import Scene

pytestmark = pytest.mark.django_db


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    Cluster.objects.filter(pk=scene.cluster.pk).update(next_at=scene.clock())
    return scene


def test_machines_and_gpus_are_written_once_and_then_only_when_something_changed(
    scene, django_assert_max_num_queries
) -> None:
    scene.pass_(1)
    node = Node.objects.get()
    assert (node.name, node.cpu_count, node.state) == (NODE.name, NODE.cpu_count, NodeState.READY)
    assert [gpu.name for gpu in node.gpus.all()] == ["Fake GPU"]
    scene.pass_(10)
    assert Node.objects.get().seen_at == node.seen_at
    scene.pass_(60)
    assert Node.objects.get().seen_at > node.seen_at


def test_another_gpu_is_noticed(scene) -> None:
    scene.pass_(1)
    scene.world.machines = (replace(NODE, gpus=(*NODE.gpus, ObservedGpu(index=1, name="B", memory_bytes=1))),)
    scene.pass_(11)
    assert list(Gpu.objects.values_list("name", flat=True)) == ["Fake GPU", "B"]


def test_a_machine_that_is_not_seen_any_more_is_unreachable_until_it_is_back(scene) -> None:
    scene.pass_(1)
    scene.world.machines = ()
    scene.pass_(11)
    assert Node.objects.get().state == NodeState.UNREACHABLE
    scene.world.machines = (NODE,)
    scene.pass_(11)
    assert Node.objects.get().state == NodeState.READY


def test_a_cluster_that_does_not_answer_says_so_and_is_asked_again(scene) -> None:
    scene.pass_(1)
    scene.world.reachable = False
    scene.pass_(120)
    row = Cluster.objects.get()
    assert row.problem == "The fake is out of reach."
    assert row.stuck_at is None
    assert Node.objects.get().state == NodeState.UNREACHABLE
    scene.world.reachable = True
    scene.pass_(11)
    assert Cluster.objects.get().problem == ""
