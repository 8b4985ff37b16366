"""What the fleet did is kept by seconds and minutes, whether or not anybody looks, and comes back by time."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from clusters import second_frames
from clusters.agents import agent_key
from clusters.history import MINUTES, known_values, packed_minute, with_values
from clusters.kept_history import kept_seconds, kept_steps, kept_values, nodes_at
from clusters.models import FleetDay, FleetMemory, FleetMinute, Worker
from clusters.reconcilers.memory import fold_hours
from clusters.selectors import whole_fleet
from common.live.redis import async_connection
from common.reconcile import kernel
from tests.cast import api, person
from tests.clusters.world import Scene, gpu_of, node_of
from tests.valkey import ValkeyServer

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 27, 12, 30, tzinfo=UTC)
MINUTE = int(NOW.timestamp() // 60)


@pytest.fixture
def scene(valkey: ValkeyServer) -> Scene:
    scene = Scene()
    node = node_of(scene.cluster, "box-1", is_cordoned=True)
    gpu_of(node, memory_bytes=100)
    deployment = scene.deployment()
    for number in (0, 1):
        Worker.objects.create(
            deployment=deployment,
            node=node,
            uid=f"u{number}",
            name=f"chat-v1-{number}",
            state="ready",
            state_since=timezone.now(),
        )
    return scene


def heartbeat(busy: float, slots: int) -> dict[str, Any]:
    load = {"busy": busy, "in_flight": 2, "queue_depth": 1, "slots": slots}
    return load | {"gpu_memory_mib": 1_000 * slots}


def report(valkey: ValkeyServer, at: datetime, *, seconds: int, busy: float = 0.5) -> None:
    """Both workers and the GPU are heard in each of these seconds."""
    key = agent_key(Worker.objects.first().node.cluster_id, "uid-of-box-1")  # type: ignore[union-attr]
    devices = {
        key: {
            "GPU-box-1-0": {"utilization_ratio": 0.9, "memory_used_bytes": 40.0},
            "host": {"memory_used_ratio": 0.7},
        }
    }

    async def remember() -> None:
        async with async_connection(valkey.url) as client:
            for second in range(seconds):
                moment = at.timestamp() + second
                assert await second_frames.claim(client, at=moment)
                assert not await second_frames.claim(client, at=moment), "two processes wrote one second"
                heard = {"u0": heartbeat(busy, 6), "u1": heartbeat(0.1, 2)}
                await second_frames.remember(client, heard, devices, at=moment)

    asyncio.run(remember())


def look() -> None:
    row = FleetMemory.objects.get()
    kernel.wake(row)
    kernel.advance("clusters.fleetmemory", row.pk)


def test_a_minute_of_seconds_is_kept_of_workers_machines_groups_and_gpus(
    scene: Scene, valkey: ValkeyServer
) -> None:
    at = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=2)
    report(valkey, at, seconds=60)
    look()
    minute = int(at.timestamp() // 60)
    node = Worker.objects.first().node_id  # type: ignore[union-attr]

    def known(subject: str, measure: Any = "busy") -> float | None:
        found = kept_values([subject], measure, since=minute, until=minute)[subject].get(minute)
        return None if found is None else round(found, 2)

    assert known("worker:chat-v1-0") == 0.5
    for whole in (f"node:{node}", f"cluster:{scene.cluster.pk}", "deployment:chat-v1"):
        assert (known(whole), known(whole, "in_flight"), known(whole, "slots")) == (0.4, 4, 8)
    assert known(f"node:{node}", "memory") == 0.7
    assert known("worker:chat-v1-1", "gpu_memory") == 2_000
    assert known("deployment:chat-v1", "gpu_memory") == 6_000, "the largest of its workers"
    assert known(f"group:{scene.cluster.pk}:shared") in (0.4, None)
    assert (known(f"gpu:{node}:GPU-box-1-0"), known(f"gpu:{node}:GPU-box-1-0", "memory")) == (0.9, 0.4)
    look()
    assert FleetMinute.objects.count() + FleetDay.objects.filter(subject__startswith="cluster:").count() == 1


def test_minutes_missed_while_no_worker_ran_are_kept_later(scene: Scene, valkey: ValkeyServer) -> None:
    at = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=6)
    for minute in (0, 1, 3):
        report(valkey, at + timedelta(minutes=minute), seconds=3)
    look()
    first = int(at.timestamp() // 60)
    subject = f"cluster:{scene.cluster.pk}"
    kept = kept_values([subject], "busy", since=first, until=first + 5)[subject]
    assert sorted(kept) == [first, first + 1, first + 3]


def test_the_last_minutes_are_read_second_by_second(scene: Scene, valkey: ValkeyServer) -> None:
    at = timezone.now().replace(microsecond=0) - timedelta(seconds=20)
    report(valkey, at, seconds=10)
    found = kept_seconds(
        "worker:chat-v1-0", whole_fleet(), since=at, until=timezone.now(), step=timedelta(seconds=1)
    )
    assert [value for _, value in found] == [0.5] * 10


def minutes_of(scene: Scene, values: dict[int, int]) -> None:
    """Keep minutes of machine 7 by their distance to NOW, as `history.figures_of_minute` makes them."""
    FleetMinute.objects.bulk_create(
        FleetMinute(minute=MINUTE + offset, packed=packed_minute({"node:7": [busy, None, 4, 1, 0, 8, 2]}))
        for offset, busy in values.items()
    )


def test_hours_are_put_into_days_and_read_alike(scene: Scene) -> None:
    minutes_of(scene, {offset: abs(offset) for offset in range(-90, 0)})
    before = kept_values(["node:7"], "busy", since=MINUTE - 90, until=MINUTE)
    for _ in range(3):
        fold_hours(before=MINUTE // 60 * 60)
    assert FleetMinute.objects.count() == 30
    row = FleetDay.objects.get()
    assert row.memory is None
    assert kept_values(["node:7"], "busy", since=MINUTE - 90, until=MINUTE) == before
    assert len(before["node:7"]) == 90
    assert nodes_at([7, 8], NOW - timedelta(minutes=50)) == {7: (0.5, 4)}


def test_steps_are_means_and_gaps_stay_gaps(scene: Scene) -> None:
    minutes_of(scene, {-15: 10, -14: 30, -2: 50})
    steps = kept_steps(
        "node:7", "busy", since=NOW - timedelta(minutes=15), until=NOW, step=timedelta(minutes=5)
    )
    assert [value for _, value in steps] == [pytest.approx(0.2), None, 0.5]
    assert steps[0][0] == NOW - timedelta(minutes=10)


def test_a_day_of_a_measure_is_small_and_exact() -> None:
    busy: dict[int, int | None] = {minute: minute * 37 % 101 for minute in range(MINUTES)}
    packed = with_values(with_values(None, "busy", {5: 7}), "busy", busy)
    assert packed is not None
    assert len(packed) <= MINUTES
    read = dict(known_values(packed, "busy", 0, MINUTES))
    assert {minute: round(value * 100) for minute, value in read.items()} == busy
    assert [minute for minute, _ in known_values(packed, "busy", -5, 1)] == [0, 1]
    counts = with_values(None, "queue", {3: 60_000})
    assert list(known_values(counts, "queue", 0, MINUTES)) == [(3, 60_000)]
    assert with_values(None, "mark", {}) is None


def test_rest_gives_the_history_of_a_cluster_for_a_month_back(scene: Scene, valkey: ValkeyServer) -> None:
    at = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=2)
    report(valkey, at, seconds=10)
    look()
    ada = api(person("ada", vision="viewer"))
    shown = ada.get("clusters/local/busy/").json()["history"]
    node = str(Worker.objects.first().node_id)  # type: ignore[union-attr]
    assert [(one["busy"], one["slots"], one["nodes"][node]) for one in shown] == [(0.4, 8, 0.4)]
    since = (timezone.now() - timedelta(days=29)).isoformat().replace("+", "%2B")
    assert len(ada.get(f"clusters/local/busy/?since={since}").json()["history"]) == 1
