"""The fleet in one process: the heartbeats that all processes share, and the rows to read them by."""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import redis
from channels.db import database_sync_to_async

from clusters import second_frames
from clusters.agents import AgentContact, agent_key, relay_key
from clusters.fleet import DeploymentRow, FleetRows, FleetSnapshot, LastHeartbeat, fleet_of
from clusters.fleet_rows import fleet_rows
from clusters.heartbeat_records import (
    DEVICES_SHARED_NAME,
    KEEP_SECONDS,
    SHARED_NAME,
    is_repeated,
    record_of,
)
from clusters.report_order import ReportOrder
from common import clock
from common.live.hub import LiveHub, current_hub
from common.live.shared import SharedValues
from serving.protocol import LOST_AFTER_SECONDS, Device, validated_heartbeat

logger = logging.getLogger(__name__)

TICK_SECONDS = 0.5
"""Heartbeats that arrive within a tick go out as one message."""
ROWS_KEEP_SECONDS = 1.0
LONGEST_ROWS_KEEP_SECONDS = 5.0
ROWS_SHARE = 0.02
"""Of a core, at most, goes into reading rows again that nobody has said to be changed."""


@dataclass(frozen=True, slots=True)
class PlacedWorker:
    deployment: DeploymentRow
    node_uid: str
    """Empty while it has no machine."""


class HeartbeatStore:
    """Heartbeats of one event loop; get it with `current_heartbeat_store()`."""

    def __init__(self, hub: LiveHub) -> None:
        self._hub = hub
        self.order = ReportOrder(hub)
        self._shared, self._devices = (
            SharedValues(hub, name, tick_seconds=TICK_SECONDS, expire_seconds=KEEP_SECONDS, ordered_by="turn")
            for name in (SHARED_NAME, DEVICES_SHARED_NAME)
        )
        self._rows = FleetRows()
        self._placed: dict[str, PlacedWorker] = {}
        self._rows_at = float("-inf")
        self._rows_keep_seconds = ROWS_KEEP_SECONDS
        self._reading = asyncio.Lock()
        hub.spawn(self._remember_for_ever(), "clusters: remembering seconds")

    async def rows(self) -> FleetRows:
        """The rows, at most a second old; five where there are very many and none is said to have changed."""
        await self._refresh()
        return self._rows

    def placed(self, worker: str) -> PlacedWorker | None:
        """The worker of that id, as the rows that were read last have it."""
        return self._placed.get(worker)

    async def _refresh(self) -> None:
        if time.monotonic() - self._rows_at < ROWS_KEEP_SECONDS:
            return
        async with self._reading:
            began = time.monotonic()
            age = began - self._rows_at
            if age < ROWS_KEEP_SECONDS or (
                age < self._rows_keep_seconds and not self._hub.changed_within(age, "fleet")
            ):
                return
            self._rows, cpu_seconds = await database_sync_to_async(_read_rows)()
            self._placed = _placed(self._rows)
            self._rows_at = began
            self._rows_keep_seconds = min(LONGEST_ROWS_KEEP_SECONDS, cpu_seconds / ROWS_SHARE)

    def validated(self, entry: object) -> dict[str, Any]:
        """Return an entry of a report as `Heartbeat.to_dict` has it. Raises ProtocolError."""
        name = entry.get("worker") if isinstance(entry, dict) else None
        held = self._shared.held.get(name) if isinstance(name, str) else None
        return validated_heartbeat(entry, held.record if held else None)

    def ingest(self, heartbeat: Mapping[str, Any], *, turn: int) -> None:
        """Share a heartbeat that has been found good. One that was known before is no sign of life."""
        worker = heartbeat["worker"]
        held = self._shared.held.get(worker)
        before = held.record if held else None
        if before is None or not is_repeated(heartbeat, before):
            self._shared.offer(worker, record_of(heartbeat, before, now=clock.seconds(), turn=turn))

    def ingest_devices(self, cluster_id: int, node_uid: str, devices: Iterable[Device], *, turn: int) -> None:
        """Share the readings of a machine's devices, and with them that its agent was heard, and since when
        (`since`, in seconds since 1970) without a break."""
        readings = {device.uuid: dict(device.readings) for device in devices}
        self._note_reporter(agent_key(cluster_id, node_uid), readings, turn=turn)

    def ingest_relay(self, cluster_id: int, *, turn: int) -> None:
        """Share that the relay of a cluster was heard, and since when without a break."""
        self._note_reporter(relay_key(cluster_id), {}, turn=turn)

    def _note_reporter(self, key: str, readings: Mapping[str, Any], *, turn: int) -> None:
        since = clock.seconds()
        before = self._devices.held.get(key)
        if before is not None and time.monotonic() - before.seen_at <= LOST_AFTER_SECONDS:
            since = before.record.get("since", since)
        self._devices.offer(key, {"devices": readings, "turn": turn, "since": since})

    def heartbeats(self) -> Mapping[str, LastHeartbeat]:
        now, wall = time.monotonic(), clock.seconds()
        return {
            name: LastHeartbeat.of_record(held.record, age_seconds=now - held.seen_at, now=wall)
            for name, held in self._shared.held.items()
        }

    def agents(self) -> Mapping[str, AgentContact]:
        now, wall = time.monotonic(), clock.seconds()
        return {
            key: AgentContact.of_record(held.record, age_seconds=now - held.seen_at, now=wall)
            for key, held in self._devices.held.items()
        }

    async def fleet(self) -> FleetSnapshot:
        self._shared.forget_old()
        self._devices.forget_old()
        rows = await self.rows()
        # Without Redis this process knows only what was reported to itself: nobody can be called lost.
        is_live = self._hub.redis_up is not False
        return fleet_of(rows, self.heartbeats(), agents=self.agents(), now=clock.now(), is_live=is_live)

    async def _remember_for_ever(self) -> None:
        while True:
            await asyncio.sleep(1 - clock.seconds() % 1)
            at = clock.seconds()
            try:
                if (self._shared.held or self._devices.held) and await second_frames.claim(
                    self._hub.client, at=at
                ):
                    devices = {
                        key: held.record.get("devices", {}) for key, held in self._devices.held.items()
                    }
                    since = time.monotonic() - LOST_AFTER_SECONDS
                    heard = {
                        worker: held.record
                        for worker, held in self._shared.held.items()
                        if held.seen_at >= since
                    }
                    await second_frames.remember(self._hub.client, heard, devices, at=at)
            except (redis.RedisError, OSError, TimeoutError) as error:
                logger.debug("A second of the fleet is not remembered: %s", error)
            except Exception:
                logger.exception("A second of the fleet is not remembered")


def _read_rows() -> tuple[FleetRows, float]:
    """Return the rows, and the CPU seconds that they took."""
    began = time.thread_time()
    return fleet_rows(), time.thread_time() - began


def _placed(rows: FleetRows) -> dict[str, PlacedWorker]:
    deployments = {row.pk: row for row in rows.deployments}
    nodes = {row.pk: row.uid for row in rows.nodes}
    return {
        row.uid: PlacedWorker(deployments[row.deployment_id], nodes.get(row.node_id or 0, ""))
        for row in rows.workers
        if row.deployment_id in deployments
    }


_stores: "WeakKeyDictionary[LiveHub, HeartbeatStore]" = WeakKeyDictionary()


def current_heartbeat_store() -> HeartbeatStore:
    """The running loop's store."""
    hub = current_hub()
    store = _stores.get(hub)
    if store is None:
        store = _stores[hub] = HeartbeatStore(hub)
    return store
