"""Machines heard by one process are known to all; nothing is concluded from old ones."""

import time
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from clusters.backends.base import (
    CordonMark,
    GpuSharingMode,
    NodeCondition,
    ObservedGpu,
    ObservedNode,
    UnreadNode,
)
from clusters.backends.fake import NODE, FakeClusterBackend
from clusters.backends.node_observations import digest_of, packed, sighting_of, sightings_of
from clusters.backends.observed_pods import ObservedPod, PodPhase
from clusters.backends.observed_pods import packed as packed_pod
from clusters.backends.observed_pods import unpacked as unpacked_pod
from clusters.backends.placement import Taint, TaintEffect
from clusters.models import Cluster, Node, Occupancy
from clusters.shared_machines import FRESH_SECONDS, PODS, Publisher, claim_key, shared_machines
from clusters.states import NodeState
from common.live.redis import ask
from tests.clusters.world import Scene

pytestmark = [pytest.mark.django_db, pytest.mark.stack]

FULL = ObservedNode(
    uid="u",
    name="n",
    address="10.0.0.1",
    cpu_count=192,
    memory_bytes=2**41,
    boot_id="b",
    provider_id="cloud://n",
    labels={"zone": "a", "ärger": "ü"},
    taints=(Taint("gpu", TaintEffect.NO_SCHEDULE, "present"),),
    allocatable={"nvidia.com/gpu": 8},
    capacity={"nvidia.com/gpu": 8},
    conditions=(NodeCondition("Ready", "True", "KubeletReady", "is ready"),),
    cordon=CordonMark("ada", "fans", datetime(2026, 11, 22, 8, tzinfo=UTC)),
    gpus=(
        ObservedGpu(uuid="G", index=1, name="H100", memory_bytes=8, driver="570", sharing=GpuSharingMode.MPS),
    ),
    problem="its fans are loud",
)


@pytest.fixture
def scene(valkey: Any) -> Scene:
    scene = Scene()
    Cluster.objects.filter(pk=scene.cluster.pk).update(next_at=scene.clock())
    return scene


def publisher(cluster: Cluster, owner: str = "one") -> Publisher:
    ask(lambda client: client.set(claim_key(cluster.pk), owner))
    return Publisher(cluster, owner)


def names(cluster: Cluster) -> list[str] | None:
    found = shared_machines(cluster)
    return None if found is None else sorted(one.read().name for one in found.sightings)


def machines(*names: str) -> dict[str, bytes]:
    return {name: packed(replace(NODE, uid=name, name=name)) for name in names}


ALMOST = {"no cordon": replace(FULL, cordon=None), "GPUs unread": replace(FULL, gpus=None)}
SEEN = {"all": FULL, **ALMOST, "unread": UnreadNode(uid="u", name="n", problem="odd")}


@pytest.mark.parametrize("seen", SEEN.values(), ids=SEEN)
def test_a_machine_is_unpacked_as_it_was_packed_and_known_by_its_digest(seen: Any) -> None:
    (direct,) = sightings_of([seen])
    shared = sighting_of("u", packed(seen))
    assert shared.read() == seen
    assert (shared.digest, shared.cordon_digest) == (direct.digest, direct.cordon_digest)


@pytest.mark.parametrize("name", [one.name for one in fields(ObservedNode)])
def test_whatever_is_told_of_a_machine_changes_its_digest(name: str) -> None:
    empty = ObservedNode(uid="", name="", address="", cpu_count=0, memory_bytes=0)
    other = replace(empty, **{name: getattr(FULL, name)})
    assert digest_of(other) != digest_of(empty), "a new field has to be packed, too"


def test_what_one_process_shares_others_read_and_only_changes_are_written(scene: Scene) -> None:
    mine = publisher(scene.cluster)
    mine.share(machines("a", "b"), heard_at=time.time())
    assert names(scene.cluster) == ["a", "b"]
    mine.share(machines("b", "c"), heard_at=time.time())
    assert names(scene.cluster) == ["b", "c"]


def test_what_is_old_or_of_other_settings_is_nobodys_word(scene: Scene) -> None:
    mine = publisher(scene.cluster)
    mine.share(machines("a"), heard_at=time.time() - FRESH_SECONDS - 1)
    assert names(scene.cluster) is None
    mine.share(machines("a"), heard_at=time.time())
    assert names(scene.cluster) == ["a"]
    scene.cluster.revision += 1
    assert names(scene.cluster) is None


def test_a_watcher_that_was_overtaken_writes_where_nobody_reads(scene: Scene) -> None:
    late = publisher(scene.cluster, "late")
    late.share(machines("old"), heard_at=time.time())
    publisher(scene.cluster, "new").share(machines("new"), heard_at=time.time())
    late.share(machines("old", "older"), heard_at=time.time())
    assert names(scene.cluster) == ["new"]


def test_what_redis_forgot_is_not_half_known(scene: Scene) -> None:
    mine = publisher(scene.cluster)
    mine.share(machines("a", "b"), heard_at=time.time())
    key = ask(lambda client: next(one for one in client.keys("slipway:machines:*:*")))
    ask(lambda client: client.hdel(key, "a"))
    assert names(scene.cluster) is None


def test_a_look_takes_what_is_shared_and_asks_the_cluster_for_no_list(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists: list[int] = []
    real = FakeClusterBackend.nodes
    monkeypatch.setattr(FakeClusterBackend, "nodes", lambda self: lists.append(1) or real(self))
    mine = publisher(scene.cluster)
    mine.share(machines("a", "b"), heard_at=time.time())
    scene.pass_(1)
    assert sorted(Node.objects.values_list("name", flat=True)) == ["a", "b"]
    mine.share(machines("b"), heard_at=time.time())
    scene.pass_(31)
    assert dict(Node.objects.values_list("name", "state")) == {"a": NodeState.GONE, "b": NodeState.READY}
    assert lists == []
    mine.share(machines("b"), heard_at=time.time() - FRESH_SECONDS - 1)
    scene.pass_(31)
    assert lists == [1]


def test_pods_that_are_shared_are_counted_without_a_list(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists: list[int] = []
    real = FakeClusterBackend.pods
    monkeypatch.setattr(FakeClusterBackend, "pods", lambda self: lists.append(1) or real(self))
    pod = ObservedPod(uid="1", name="train-0", namespace="research", node="a", gpus={"nvidia.com/gpu": 4})
    waiting = replace(pod, uid="2", node="", phase=PodPhase.PENDING, why="no GPU is free")
    for one in (pod, waiting):
        assert unpacked_pod(one.uid, packed_pod(one)) == one
    publisher(scene.cluster)
    pods = {one.uid: packed_pod(one) for one in (pod, waiting)}
    at = time.time() - 3
    Publisher(scene.cluster, "one", PODS).share(pods, heard_at=at)
    scene.pass_(2)
    found = Occupancy.objects.get(cluster=scene.cluster)
    assert found.used == {"a": {"nvidia.com/gpu": {"others": 4}}}
    assert (found.pending_count, found.pending[0]["why"]) == (1, "no GPU is free")
    assert found.seen_at is not None
    assert found.seen_at.timestamp() == pytest.approx(at, abs=0.01)
    assert lists == []
