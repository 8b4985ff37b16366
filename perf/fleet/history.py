"""The memory of the fleet: what a chart of many machines reads, and what a minute costs to keep.

A database of its own with minutes of machines that are busy at random, which is the worst that can be packed,
put into days as the reconciler does.
"""

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from perf.registry.table import database
from perf.required import RequiredFigure, at_most

MACHINES, DAYS = 200, 7
MOST_BYTES = 2_000_000
WORKERS_OF_A_MACHINE = 4
SECONDS = 60


def figures() -> Iterator[RequiredFigure]:
    """Yield the bytes of what all machines did in all days, and the CPU to read, write and keep it."""
    with database():
        yield from _figures_of_days(MACHINES, DAYS)


def _figures_of_days(machines: int, days: int) -> Iterator[RequiredFigure]:
    from clusters.history import MINUTES, with_values
    from clusters.kept_history import kept_values
    from clusters.models import FleetDay

    rng = random.Random(1)
    last = int(datetime(2026, 11, 27, tzinfo=UTC).timestamp()) // 86_400
    began = time.process_time()
    for day in range(last - days, last):
        rows = []
        for machine in range(machines):
            level = rng.random()
            busy: dict[int, int | None] = {
                minute: round(100 * min(1, max(0, rng.gauss(level, 0.15)))) for minute in range(MINUTES)
            }
            rows.append(FleetDay(subject=f"node:{machine}", day=day, busy=with_values(None, "busy", busy)))
        FleetDay.objects.bulk_create(rows)
    wrote = time.process_time() - began
    read = sum(len(one or b"") for one in FleetDay.objects.values_list("busy", flat=True))
    began = time.process_time()
    subjects = [f"node:{machine}" for machine in range(machines)]
    found = kept_values(subjects, "busy", since=(last - days) * MINUTES, until=last * MINUTES - 1)
    took = time.process_time() - began
    points = machines * days * MINUTES
    assert sum(map(len, found.values())) == points
    yield RequiredFigure(f"{machines:,} machines, {days} days, points", f"{points:,}")
    yield at_most("bytes read", read, MOST_BYTES)
    yield RequiredFigure("own CPU to read them", f"{took:.2f} s")
    yield RequiredFigure("own CPU to make and write them", f"{wrote:.1f} s")
    yield from _figures_of_a_minute(machines, rng)


def _figures_of_a_minute(machines: int, rng: random.Random) -> Iterator[RequiredFigure]:
    from clusters.fleet import ClusterRow, DeploymentRow, FleetRows, NodeRow, WorkerRow, fleet_of
    from clusters.history import figures_of_minute, packed_minute
    from clusters.second_frames import SecondFrame

    now = datetime.now(UTC)
    workers = [
        WorkerRow(
            pk=number,
            uid=f"u{number}",
            name=f"w{number}",
            deployment_id=1,
            node_id=number // WORKERS_OF_A_MACHINE,
            pid=1,
            state="ready",
            state_since=now,
            restarts=0,
            reason="",
        )
        for number in range(machines * WORKERS_OF_A_MACHINE)
    ]
    rows = FleetRows(
        clusters=[ClusterRow(1, "prod", None, "")],
        nodes=[NodeRow(number, f"n{number}", 1, "online", "ready") for number in range(machines)],
        deployments=[DeploymentRow(1, "chat", 1, 1, "chat", "chat:v1", len(workers), 8, "ready", "")],
        workers=workers,
    )
    frames = [
        SecondFrame(now, {one.uid: [round(rng.random(), 2), rng.randrange(8), 0, 8] for one in workers})
        for _ in range(SECONDS)
    ]
    fleet = fleet_of(rows, {}, now=now, is_live=True)
    began = time.process_time()
    packed = packed_minute(figures_of_minute(frames, fleet))
    took = time.process_time() - began
    yield RequiredFigure(f"a minute of {len(workers):,} workers, own CPU", f"{took * 1e3:,.0f} ms")
    yield RequiredFigure("  packed", f"{len(packed):,} bytes")
