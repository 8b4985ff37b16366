"""Busy rates of the last hour, one sample every 10 s, in Redis: a hash per cluster, bounded, gone with Redis.

Every process that knows the fleet could write the sample of a moment; the first to claim it does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import redis.asyncio

from clusters.fleet import FleetSnapshot
from common.live.redis import ask

STEP_SECONDS = 10
KEEP = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class LoadSample:
    """The 10 s that end at `at`."""

    at: datetime
    busy: float | None
    in_flight: int
    slots: int
    workers: int
    nodes: Mapping[int, float | None]
    """Busy by the machine's id."""


async def claim(client: "redis.asyncio.Redis", *, at: float, by: str) -> bool:
    """Whether the sample of this moment is for the caller to write."""
    return bool(await client.set(f"slipway:busy:claim:{_step(at)}", by, nx=True, ex=STEP_SECONDS * 6))


async def remember(client: "redis.asyncio.Redis", fleet: FleetSnapshot, *, at: float) -> None:
    step = _step(at)
    kept_steps = int(KEEP.total_seconds()) // STEP_SECONDS
    pipeline = client.pipeline(transaction=False)
    for cluster in fleet.clusters:
        key = _key(cluster.row.pk)
        load = cluster.load
        content = [load.busy, load.in_flight, load.slots, load.workers]
        nodes = [[node.row.pk, node.load.busy] for node in cluster.nodes]
        pipeline.hset(key, str(step), orjson.dumps([*content, nodes]))
        # A window of old fields, so that nothing stays when samples were missed.
        outdated = range(step - kept_steps * 2, step - kept_steps + 1)
        pipeline.hdel(key, *(str(old) for old in outdated))
        pipeline.expire(key, int(KEEP.total_seconds()) * 2)
    await pipeline.execute()


def samples(cluster_id: int, *, since: datetime) -> list[LoadSample]:
    """Ascending. Raises NotShared when Redis does not answer."""
    fields: Mapping[Any, Any] = ask(lambda client: client.hgetall(_key(cluster_id)))
    first = _step(since.timestamp())
    found = [_sample(int(step), text) for step, text in fields.items() if int(step) > first]
    return sorted(found, key=lambda sample: sample.at)


def _sample(step: int, text: bytes) -> LoadSample:
    busy, in_flight, slots, workers, nodes = orjson.loads(text)
    at = datetime.fromtimestamp(step * STEP_SECONDS, UTC)
    return LoadSample(at, busy, in_flight, slots, workers, dict(nodes))


def _step(at: float) -> int:
    return int(at) // STEP_SECONDS


def _key(cluster_id: int) -> str:
    return f"slipway:busy:{cluster_id}"
