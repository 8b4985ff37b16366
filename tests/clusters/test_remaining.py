"""Capacity of other machines for the pods of one that leaves service."""

import pytest
from django.utils import timezone

from clusters.capacity import MachineCapacity
from clusters.draining.remaining import placed, remaining
from clusters.models import Cluster, Gpu, Node, Occupancy
from tests import cast

GPU = "nvidia.com/gpu"


def room(name: str, free: int) -> MachineCapacity:
    return MachineCapacity(name=name, gpu_type="H100", allocatable={GPU: 8}, used={GPU: {"ours": 8 - free}})


def test_large_pods_are_placed_first_and_each_where_it_fits_most_tightly() -> None:
    assert placed([room("a", 4), room("b", 2)], [{GPU: 2}, {GPU: 4}]) == 2
    assert placed([room("a", 3), room("b", 3)], [{GPU: 4}]) == 0
    assert placed([room("a", 3), room("b", 1)], [{GPU: 1}, {GPU: 3}]) == 2


@pytest.fixture
def machines(db: None) -> list[Node]:
    now = timezone.now()
    cluster = Cluster.objects.create(
        name="eu-1", kind="kubernetes", team=cast.team("vision"), checked_at=now, surveyed_at=now
    )
    nodes = []
    for name in ("box-0", "box-1", "box-2"):
        node = Node.objects.create(cluster=cluster, uid=name, name=name, seen_at=now, allocatable={GPU: 4})
        Gpu.objects.create(cluster=cluster, node=node, uuid=f"GPU-{name}", index=0, name="H100")
        nodes.append(node)
    Occupancy.objects.create(cluster=cluster, used={"box-1": {GPU: {"others": 3}}}, sizes={}, seen_at=now)
    return nodes


def test_only_machines_of_the_same_gpus_that_take_pods_count(machines: list[Node]) -> None:
    Gpu.objects.filter(node=machines[2]).update(name="A100")
    found = remaining(machines[0], [{GPU: 1}, {GPU: 2}])
    assert (found.free, found.wanted, found.placed, found.suffices) == (1, 3, 1, False)
    assert "1 of 2 pods find a place" in found.words

    Gpu.objects.filter(node=machines[2]).update(name="H100")
    assert remaining(machines[0], [1, 2]).suffices
    Node.objects.filter(pk=machines[2].pk).update(is_cordoned=True)
    assert not remaining(machines[0], [1, 2]).suffices


def test_a_machine_without_gpu_pods_needs_no_room(machines: list[Node]) -> None:
    found = remaining(machines[0], [{}, 0])
    assert (found.pods, found.words) == (0, "")
