"""What Prometheus reads of one process and its machine, and of the queues that processes share."""

import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from django.conf import settings
from prometheus_client.metrics_core import Metric

from common import disk
from common.database.connections import pool_figures
from common.disk import DiskState
from common.live.hub import open_sockets
from common.live.redis import NotShared, ask
from common.logs import context
from common.metrics import gauge
from common.reconcile import pulses
from controlplane.celery import app


def process() -> Iterator[Metric]:
    """Measure the process that answers, which `role` names; Prometheus adds its address."""
    role = context.role()
    pool = pool_figures()
    yield from _pools(("role",), {(role,): asdict(pool)} if pool else {})
    yield gauge(
        "live_sockets",
        "Websockets that are open in the process that answers.",
        ("role",),
        [((role,), float(open_sockets()))],
    )


def pools_of_takers(role: str) -> Iterator[Metric]:
    """Yield metrics of this machine's processes that take what is due in that role, each by its `pid`."""
    found = pulses.pools(role, socket.gethostname())
    yield from _pools(("role", "pid"), {(role, str(pid)): pool for pid, pool in found.items()})


def _pools(labels: tuple[str, ...], pools: Mapping[tuple[str, ...], Mapping[str, int]]) -> Iterator[Metric]:
    yield gauge(
        "database_pool_connections",
        "Connections in the pool of a process: in use or idle.",
        (*labels, "state"),
        [
            ((*whose, state), float(pool[state]))
            for whose, pool in pools.items()
            for state in ("in_use", "idle")
        ],
    )
    yield gauge(
        "database_pool_limit",
        "Connections that its pool takes at most (SLIPWAY_DATABASE_CONNECTIONS).",
        labels,
        [(whose, float(pool["limit"])) for whose, pool in pools.items()],
    )
    yield gauge(
        "database_pool_waiting",
        "Callers in it that wait for a connection.",
        labels,
        [(whose, float(pool["waiting"])) for whose, pool in pools.items()],
    )


def queues() -> Iterator[Metric]:
    """Yield metrics of the broker's queues; without a sample while it is away."""
    names = list(app.amqp.queues)
    try:
        lengths = ask(lambda redis: [redis.llen(name) for name in names])
    except NotShared:
        lengths = []
    yield gauge(
        "queue_messages",
        "Doorbells that no Celery worker has taken yet.",
        ("queue",),
        [((name,), float(length)) for name, length in zip(names, lengths, strict=False)],
    )


def disks() -> Iterator[Metric]:
    """Yield metrics of this machine's disks: the home's, and the model store's unless it is a bucket."""
    places = {"home": Path(settings.SLIPWAY_HOME)}
    if not settings.SLIPWAY_STORE:
        places["store"] = Path(settings.SLIPWAY_STORE_DIR)
    found = {name: status for name, path in places.items() if (status := _status(path)) is not None}
    for name, help_text, read in (
        ("disk_free_bytes", "Free on the disk, without what only root may use.", _free),
        ("disk_size_bytes", "Size of the disk.", lambda one: one.f_blocks * one.f_frsize),
        ("disk_free_inodes", "Files that the disk could take yet; 0 of 0 where it does not count.", _inodes),
        ("disk_inodes", "Files that the disk takes at most.", lambda one: one.f_files),
    ):
        yield gauge(name, help_text, ("place",), [((at,), float(read(one))) for at, one in found.items()])
    try:
        state = disk.room().state
    except OSError:
        return
    states = [((one.value,), float(state is one)) for one in DiskState]
    yield gauge("disk_state", "1 for the state of the home's disk: ok, low or full.", ("state",), states)


def _status(path: Path) -> os.statvfs_result | None:
    try:
        return os.statvfs(path)
    except OSError:
        return None


def _free(status: os.statvfs_result) -> int:
    return status.f_bavail * status.f_frsize


def _inodes(status: os.statvfs_result) -> int:
    return status.f_favail
