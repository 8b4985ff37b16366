"""The memory of the fleet: what a chart of many machines reads, and what a minute costs to keep.

`python -m perf.fleet [--machines 200] [--days 7]` fills a database of its own with minutes of machines that
are busy at random, which is the worst that can be packed, puts them into days as the reconciler does, and
reads them all. The limit of 2 MB is for 200 machines and 7 days.
"""

import argparse
import random
import time
from datetime import UTC, datetime

from perf.registry.table import database
from perf.required import RequiredFigure, at_most, report

MOST_BYTES_OF_A_MINUTE = 2_000_000 / (200 * 7 * 1_440)
WORKERS_OF_A_MACHINE = 4
SECONDS = 60


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m perf.fleet", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--machines", type=int, default=200)
    parser.add_argument("--days", type=int, default=7)
    options = parser.parse_args()
    with database():
        return report(_rows(options.machines, options.days))


def _rows(machines: int, days: int) -> list[RequiredFigure]:
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
    return [
        RequiredFigure(f"{machines:,} machines, {days} days, points", f"{points:,}"),
        at_most("bytes read", read, MOST_BYTES_OF_A_MINUTE * points),
        RequiredFigure("own CPU to read them", f"{took:.2f} s"),
        RequiredFigure("own CPU to make and write them", f"{wrote:.1f} s"),
        *_minute_rows(machines, rng),
    ]


def _minute_rows(machines: int, rng: random.Random) -> list[RequiredFigure]:
    """Measure a minute of machines and their workers, from its seconds on."""
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
    return [
        RequiredFigure(f"a minute of {len(workers):,} workers, own CPU", f"{took * 1e3:,.0f} ms"),
        RequiredFigure("  packed", f"{len(packed):,} bytes"),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
