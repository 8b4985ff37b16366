"""Free GPUs, those too scattered to be of use, and the age of that knowledge."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from clusters.backends.base import ObservedGpu
from clusters.backends.fake import NODE
from clusters.backends.observed_pods import ObservedPod, PodPhase
from clusters.capacities import STALE_AFTER, capacity
from clusters.capacity import MachineCapacity, capacity_of, usual_size
from clusters.models import Cluster
from tests.cast import api, client_of, person
from tests.clusters.test_nodes import Machines

H100 = "NVIDIA H100 80GB HBM3"
GPU = "nvidia.com/gpu"


def room(name: str, there: int, ours: int = 0, others: int = 0, **fields: Any) -> MachineCapacity:
    used = {GPU: {"ours": ours, "others": others}}
    given = {"gpu_type": H100, "allocatable": {GPU: there}, "used": used}
    return MachineCapacity(name=name, **given | fields)


def test_free_gpus_that_no_pod_of_the_usual_size_fits_on_are_fragmented() -> None:
    rooms = [room("a", 8, ours=4, others=1), room("b", 8, others=6), room("c", 8)]
    (found,) = capacity_of(rooms, {GPU: {"4": 3, "1": 2}})
    assert (found.total, found.ours, found.others, found.free) == (24, 4, 7, 13)
    assert (found.usual, found.fragmented, found.largest) == (4, 3 + 2, 8)


def test_what_is_free_on_a_machine_that_takes_no_pods_is_not_free() -> None:
    rooms = [room("a", 8, ours=2, takes_pods=False), room("b", 8)]
    (found,) = capacity_of(rooms, {})
    assert (found.free, found.unavailable, found.fragmented) == (8, 6, 0)


def test_slices_of_gpus_are_a_type_of_their_own() -> None:
    slices = {GPU: 4, "nvidia.com/mig-1g.10gb": 14}
    found = {one.gpu_type: one.total for one in capacity_of([room("a", 8, allocatable=slices)], {})}
    assert found == {H100: 4, f"{H100} MIG 1g.10gb": 14}


def test_the_usual_size_is_the_most_frequent_and_of_two_the_larger() -> None:
    assert usual_size({"1": 5, "8": 2}) == 1
    assert usual_size({"1": 2, "8": 2}) == 8
    assert usual_size({}) == 1


class Fleet(Machines):
    def __init__(self) -> None:
        super().__init__()
        gpus = tuple(
            ObservedGpu(uuid=f"GPU-{index}", index=index, name=H100, memory_bytes=80 * 2**30)
            for index in range(8)
        )
        node = replace(NODE, gpus=gpus, allocatable={GPU: 8}, labels={"nvidia.com/gpu.clique": "a.1"})
        self.world.nodes = lambda: self.away() or (node,)  # type: ignore[method-assign]
        self.stands("training", gpus={GPU: 4})
        self.stands("batch", gpus={GPU: 1})
        self.stands("waits", gpus={GPU: 4}, node="", phase=PodPhase.PENDING, why="Too little is free.")
        self.pass_(60)

    def away(self) -> None:
        self.world._answer()

    def stands(self, name: str, **fields: Any) -> None:
        given = {"uid": name, "namespace": "theirs", "node": NODE.name, "owner": "ReplicaSet x"}
        self.world.node_operations.others.append(ObservedPod(name=name, **given | fields))

    @property
    def row(self) -> Cluster:
        return Cluster.objects.get(name="local")


@pytest.mark.django_db
def test_a_clusters_gpus_are_counted_with_those_of_others_and_who_waits() -> None:
    scene = Fleet()
    found = capacity(scene.row, now=scene.clock())
    (one,) = found.types
    assert (one.gpu_type, one.total, one.others, one.free, one.fragmented) == (H100, 8, 5, 3, 3)
    assert found.occupancy is not None
    assert [(pod["name"], pod["why"]) for pod in found.occupancy.pending] == [
        ("waits", "Too little is free.")
    ]
    assert not found.is_stale


@pytest.mark.django_db
def test_what_is_known_of_a_silent_cluster_is_stale_and_keeps_its_age() -> None:
    scene = Fleet()
    before = capacity(scene.row, now=scene.clock())
    scene.world.reachable = False
    scene.pass_(STALE_AFTER.total_seconds() + 30, by=5)
    after = capacity(scene.row, now=scene.clock())
    assert (before.is_stale, after.is_stale) == (False, True)
    assert after.seen_at is not None
    assert scene.clock() - after.seen_at > timedelta(minutes=2)
    assert after.types[0].total == 8
    scene.world.reachable = True
    scene.pass_(60)
    assert not capacity(scene.row, now=scene.clock()).is_stale


@pytest.mark.django_db
def test_capacity_is_told_over_rest_and_on_the_clusters_page() -> None:
    Fleet()
    shown = api(person("vi", vision="viewer")).get("clusters/local/capacity/").json()
    (one,) = shown["types"]
    assert (one["gpu_type"], one["free"], one["fragmented"], one["usual"]) == (H100, 3, 3, 4)
    assert shown["pending"][0]["why"] == "Too little is free."
    page = client_of(person("ada", vision="operator")).get("/fleet/clusters/local/").content.decode()
    assert H100 in page
    assert "theirs/waits" in page
    assert api(person("eve", speech="admin")).get("clusters/local/capacity/").status_code == 404
