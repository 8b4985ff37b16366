"""Heartbeats as all processes share them: the latest record per worker, in Redis; never a row."""

from collections.abc import Mapping
from typing import Any

from clusters.agents import AgentContact, agent_key
from clusters.fleet import FULL, LastHeartbeat
from common import clock
from common.live.redis import NotShared
from common.live.shared import stored

SHARED_NAME = "heartbeats"
DEVICES_SHARED_NAME = "devices"
KEEP_SECONDS = 60.0
"""A worker that has said nothing for this long is not even remembered as lost by its heartbeat."""


def record_of(
    heartbeat: Mapping[str, Any], before: Mapping[str, Any] | None, *, now: float, turn: int
) -> dict[str, Any]:
    """Return a validated heartbeat with two moments, in seconds since 1970, or None: `full_since`, when its
    process became wholly busy, and `unfinished_since`, since when it has requests in flight of which none has
    ended.
    """
    is_same_process = before is not None and before["pid"] == heartbeat["pid"]
    full_since = unfinished_since = None
    if heartbeat["busy"] >= FULL:
        full_since = (before["full_since"] if before is not None and is_same_process else None) or now
    if heartbeat["in_flight"]:
        waits_on = is_same_process and (
            before is not None and before["counters"]["requests"] == heartbeat["counters"]["requests"]
        )
        unfinished_since = (
            before.get("unfinished_since") if before is not None and waits_on else None
        ) or now
    return {**heartbeat, "full_since": full_since, "unfinished_since": unfinished_since, "turn": turn}


def is_repeated(heartbeat: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether its reporter knows no newer word of this worker than the one before."""
    return bool(
        heartbeat["at"] == before["at"]
        and heartbeat["started_at"] == before["started_at"]
        and heartbeat["pid"] == before["pid"]
    )


def latest(workers: list[str] | None = None) -> dict[str, LastHeartbeat] | None:
    """The last heartbeat by worker, for synchronous code; None when they are not known at the moment."""
    try:
        records = stored(SHARED_NAME, workers)
    except NotShared:
        return None
    now = clock.seconds()
    return {
        name: LastHeartbeat.of_record(record, age_seconds=max(0.0, now - at), now=now)
        for name, (at, record) in records.items()
    }


def agents(keys: list[str] | None = None) -> dict[str, AgentContact] | None:
    """Return the agents heard within the last minute, by key; None when that is not known at the moment."""
    try:
        records = stored(DEVICES_SHARED_NAME, keys)
    except NotShared:
        return None
    now = clock.seconds()
    return {
        key: AgentContact.of_record(record, age_seconds=max(0.0, now - at), now=now)
        for key, (at, record) in records.items()
        if now - at <= KEEP_SECONDS
    }


def latest_readings(cluster_id: int, node_uid: str) -> Mapping[str, Mapping[str, float]]:
    """Return the last readings of a machine's devices, by uuid; empty when they are not known."""
    key = agent_key(cluster_id, node_uid)
    return readings_by_agent([key]).get(key, {})


def readings_by_agent(keys: list[str]) -> dict[str, Mapping[str, Mapping[str, float]]]:
    """Return the last readings of devices by uuid, by the agent's key; those not known are left out."""
    try:
        found = stored(DEVICES_SHARED_NAME, keys) if keys else {}
    except NotShared:
        return {}
    now = clock.seconds()
    return {key: record["devices"] for key, (at, record) in found.items() if now - at <= KEEP_SECONDS}
