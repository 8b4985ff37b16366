"""Machines and pods of a cluster, and what it tells of them, as the process that watches it has them: in
Redis, for all others, while they hold.

Each watcher writes under a run of its own, and says which run is the one as long as the claim is its own: one
that was overtaken while it slept writes where nobody reads.
"""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from clusters.backends.base import ObservedWorker
from clusters.backends.kubernetes_events import KubernetesEvent, unpacked
from clusters.backends.node_observations import NodeObservation, sighting_of
from clusters.backends.observed_pods import ObservedPods
from clusters.backends.observed_pods import unpacked as unpacked_pod
from clusters.backends.shared_workers import unpacked as unpacked_workers
from clusters.models import Cluster
from common import clock
from common.live.redis import NotShared, ask

FRESH_SECONDS = 75.0
"""A cluster in which nothing changes is heard about once a minute. What is older is nobody's word."""
KEPT_SECONDS = 300
TOGETHER = 500
MACHINES, PODS, EVENTS, WORKERS = "machines", "pods", "events", "workers"
_SAY = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('set', KEYS[2], ARGV[2], 'EX', ARGV[3])
return 1
"""


def claim_key(cluster: int) -> str:
    """Whoever holds it watches the cluster."""
    return f"slipway:watching:{cluster}"


def _about_key(cluster: int, what: str) -> str:
    return f"slipway:{what}:{cluster}"


def _run_key(cluster: int, what: str, run: str) -> str:
    return f"slipway:{what}:{cluster}:{run}"


@dataclass(frozen=True, slots=True)
class SharedMachines:
    sightings: tuple[NodeObservation, ...]
    heard_at: datetime
    """When the cluster was last heard: they are as of then."""


@dataclass(frozen=True, slots=True)
class SharedEvents:
    events: tuple[KubernetesEvent, ...]
    heard_at: datetime


@dataclass(frozen=True, slots=True)
class SharedWorkers:
    workers: tuple[ObservedWorker, ...]
    heard_at: datetime


class Publisher:
    """Shares what a watching process holds. `share` writes what differs from what it wrote last."""

    def __init__(self, cluster: Cluster, owner: str, what: str = MACHINES) -> None:
        self._cluster = cluster.pk
        self._what = what
        self._revision = cluster.revision
        self._owner = owner
        self._lock = Lock()
        self._begin()

    def _begin(self) -> None:
        self._run = secrets.token_hex(8)
        self._shared: Mapping[str, bytes] = {}

    def share(self, machines: Mapping[str, bytes], *, heard_at: float) -> None:
        """Share machines by uid, as `node_observations.packed`, or events by `kubernetes_events.about`.
        `heard_at`: seconds since 1970. Never raises for Redis' sake.
        """
        with self._lock:
            self._share(machines, heard_at)

    def _share(self, machines: Mapping[str, bytes], heard_at: float) -> None:
        before = self._shared
        changed = {uid: one for uid, one in machines.items() if before.get(uid) != one}
        gone = before.keys() - machines.keys()
        about = {"run": self._run, "revision": self._revision, "heard_at": heard_at, "count": len(machines)}
        key = _run_key(self._cluster, self._what, self._run)

        def write(client: Any) -> None:
            pipeline = client.pipeline(transaction=True)
            for some in _batches(list(changed)):
                pipeline.hset(key, mapping={uid: changed[uid] for uid in some})
            for some in _batches(list(gone)):
                pipeline.hdel(key, *some)
            pipeline.expire(key, KEPT_SECONDS)
            keys = (claim_key(self._cluster), _about_key(self._cluster, self._what))
            pipeline.eval(_SAY, 2, *keys, self._owner, json.dumps(about), KEPT_SECONDS)
            pipeline.execute()

        try:
            ask(write)
        except NotShared:
            self._begin()  # what of it was written is not known
        else:
            self._shared = machines


def shared_machines(cluster: Cluster) -> SharedMachines | None:
    """Return the shared machines; None: nobody watches them, they are too old, or of other settings."""
    if (found := _shared(cluster, MACHINES)) is None:
        return None
    values, heard_at = found
    sightings = tuple(sighting_of(uid.decode(), value) for uid, value in values.items())
    return SharedMachines(sightings, datetime.fromtimestamp(heard_at, UTC))


def shared_pods(cluster: Cluster) -> ObservedPods | None:
    """All that have not ended, as they are counted. None as above, and where they may not all be read."""
    if (found := _shared(cluster, PODS)) is None:
        return None
    values, heard_at = found
    pods = tuple(unpacked_pod(uid.decode(), value) for uid, value in values.items())
    return ObservedPods(pods, seen_at=datetime.fromtimestamp(heard_at, UTC))


def shared_workers(cluster: Cluster, deployment: str) -> SharedWorkers | None:
    """All of the deployment. None: nobody hears of them, what was heard is too old, or there are none."""

    def read(client: Any) -> tuple[bytes | None, float] | None:
        about = _about(client, cluster, WORKERS)
        if about is None:
            return None
        return client.hget(_run_key(cluster.pk, WORKERS, about["run"]), deployment), about["heard_at"]

    try:
        found = ask(read)
    except NotShared:
        return None
    if found is None or found[0] is None:
        return None
    return SharedWorkers(unpacked_workers(found[0]), datetime.fromtimestamp(found[1], UTC))


def _shared(cluster: Cluster, what: str) -> tuple[dict[bytes, bytes], float] | None:
    try:
        return ask(lambda client: _read(client, cluster, what))
    except NotShared:
        return None


def events_about(cluster: Cluster, things: Sequence[str]) -> SharedEvents | None:
    """Return the events of these alone, by `kubernetes_events.about`, the latest first. None: nobody hears
    them, or they are too old.
    """
    try:
        found = ask(lambda client: _read_events(client, cluster, things))
    except NotShared:
        return None
    if found is None:
        return None
    values, heard_at = found
    events = [one for value in values if value is not None for one in unpacked(value)]
    events.sort(key=lambda one: one.last_at.timestamp() if one.last_at else 0.0, reverse=True)
    return SharedEvents(tuple(events), datetime.fromtimestamp(heard_at, UTC))


def _read_events(
    client: Any, cluster: Cluster, things: Sequence[str]
) -> tuple[list[bytes | None], float] | None:
    about = _about(client, cluster, EVENTS)
    if about is None:
        return None
    key = _run_key(cluster.pk, EVENTS, about["run"])
    return (client.hmget(key, things) if things else []), about["heard_at"]


def _about(client: Any, cluster: Cluster, what: str) -> dict[str, Any] | None:
    """Return the header of what is shared, if it is still valid."""
    said = client.get(_about_key(cluster.pk, what))
    if said is None:
        return None
    about: dict[str, Any] = json.loads(said)
    is_old = about["revision"] != cluster.revision or clock.seconds() - about["heard_at"] > FRESH_SECONDS
    return None if is_old else about


def _read(client: Any, cluster: Cluster, what: str) -> tuple[dict[bytes, bytes], float] | None:
    about = _about(client, cluster, what)
    if about is None:
        return None
    values: dict[bytes, bytes] = client.hgetall(_run_key(cluster.pk, what, about["run"]))
    # One that came or went between the two reads: the next look has it.
    return (values, about["heard_at"]) if len(values) == about["count"] else None


def _batches(items: Sequence[str]) -> Iterator[Sequence[str]]:
    return (items[start : start + TOGETHER] for start in range(0, len(items), TOGETHER))
