"""What workers and GPUs reported in each second of the last 15 minutes, in Redis: a key a second.

Every process that knows the heartbeats could write a second; the first to claim it does.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import redis.asyncio

from common.live.redis import ask

KEEP = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class SecondFrame:
    at: datetime
    workers: Mapping[str, list[Any]] = field(default_factory=dict)
    """By uid: busy (0..1), in flight, queue, slots, MiB of GPU memory (None, or absent: not measured)."""
    gpus: Mapping[str, list[Any]] = field(default_factory=dict)
    """By `gpu_key`: use (0..1), bytes of memory in use (of a machine itself their share); None: not read."""


def gpu_key(agent: str, uuid: str) -> str:
    """`agent`: key of its machine's agent."""
    return f"{agent}|{uuid}"


async def claim(client: "redis.asyncio.Redis", *, at: float) -> bool:
    """Whether this second is for the caller to write."""
    return bool(await client.set(_key(int(at)), b"", nx=True, ex=int(KEEP.total_seconds())))


async def remember(
    client: "redis.asyncio.Redis",
    heartbeats: Mapping[str, Mapping[str, Any]],
    devices: Mapping[str, Mapping[str, Mapping[str, float]]],
    *,
    at: float,
) -> None:
    """`heartbeats`: records of the workers that were heard just now. `devices`: readings by uuid, by the
    agent's key.
    """
    workers = {
        uid: [
            round(one["busy"], 2),
            one["in_flight"],
            one["queue_depth"],
            one["slots"],
            one.get("gpu_memory_mib"),
        ]
        for uid, one in heartbeats.items()
    }
    gpus = {
        gpu_key(agent, uuid): [
            reading.get("utilization_ratio"),
            reading.get("memory_used_ratio", reading.get("memory_used_bytes")),
        ]
        for agent, readings in devices.items()
        for uuid, reading in readings.items()
    }
    frame = zlib.compress(orjson.dumps([workers, gpus]), 1)
    await client.set(_key(int(at)), frame, ex=int(KEEP.total_seconds()))


def frames(seconds: Iterable[int]) -> list[SecondFrame]:
    """Return the frames of these seconds since 1970 that are kept. Raises NotShared when Redis does not
    answer.
    """
    wanted = list(seconds)
    kept: Sequence[Any] = ask(lambda client: client.mget([_key(one) for one in wanted]))
    return [
        SecondFrame(datetime.fromtimestamp(second, UTC), *orjson.loads(zlib.decompress(packed)))
        for second, packed in zip(wanted, kept, strict=True)
        if packed
    ]


def _key(second: int) -> str:
    return f"slipway:fleet-second:{second}"
