"""System figures of a run's machines as the Prometheus of its cluster scraped them, for those whose exporters
the load generator does not reach."""

import logging
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from statistics import fmean
from typing import Any

from benchmarks.load.system import DCGM
from benchmarks.models import BenchmarkRun
from clusters.models import Node
from gateway import selectors as gateway
from gateway.errors import GatewayError
from gateway.scraped_series import ScrapedSeries

logger = logging.getLogger(__name__)

MACHINE_LABELS = ("instance", "node", "Hostname")
"""One of them names the machine of a series, or has its address, as Prometheus, its operator and
dcgm-exporter write them."""
SPARE_SECONDS = 120
"""Before the run: a share of CPU needs two scrapes."""
MOST_SECONDS = 24 * 3600
_MEMORY = ("node_memory_MemTotal_bytes", "node_memory_MemAvailable_bytes")
_IDLE = "node_cpu_seconds_total"
Points = list[tuple[float, float]]


def with_scraped(
    run: BenchmarkRun, system: Mapping[str, Any] | None, at: datetime
) -> Mapping[str, Any] | None:
    """Return the system figures and, of what they lack, what Prometheus has; see `load.system_series`."""
    machines = Node.objects.filter(
        cluster=run.benchmark.cluster, name__in=run.environment.get("machines", ())
    )
    found = dict(machines.exclude(address="").values_list("address", "name"))
    if not found or "cpu" in (system or {}).get("series", {}):
        return system  # It was read on the machine itself.
    began = (system or {}).get("began") or run.state_since.timestamp()
    seconds = min(MOST_SECONDS, math.ceil(at.timestamp() - began) + SPARE_SECONDS)
    try:
        series = gateway.scraped(
            run.benchmark.cluster, _selectors(found), seconds=seconds, until=at.timestamp()
        )
    except GatewayError as error:
        logger.warning("%s lacks what Prometheus has: %s", run, error)
        return system
    return merged(system, figures_of(series, found), began=began, until=at.timestamp())


def _selectors(machines: Mapping[str, str]) -> list[str]:
    # Names have letters, digits, and of what means something in a regular expression only dots.
    hosts = "|".join(one.replace(".", "[.]") for one in (*machines, *machines.values()))
    names = "|".join((*_MEMORY, *(theirs for theirs, _factor in DCGM.values())))
    return [
        f'{label}=~"({hosts})(:[0-9]+)?",{which}'
        for label in MACHINE_LABELS
        for which in (f'__name__=~"{names}"', f'__name__="{_IDLE}",mode="idle"')
    ]


def figures_of(series: Sequence[ScrapedSeries], machines: Mapping[str, str]) -> dict[str, Points]:
    """Return the figures by the name that the generator's sampler gives them. `machines`: by address."""
    found: dict[str, Points] = {}
    memory: dict[str, dict[str, dict[float, float]]] = defaultdict(dict)
    idle: dict[str, dict[str, Points]] = defaultdict(dict)
    ours_of = {theirs: (ours, factor) for ours, (theirs, factor) in DCGM.items()}
    for one in series:
        name = one.labels.get("__name__", "")
        if not (machine := _machine(one.labels, machines)):
            continue
        if name == _IDLE:
            idle[machine][one.labels.get("cpu", "")] = list(one.samples)
        elif name in _MEMORY:
            memory[machine][name] = dict(one.samples)
        elif name in ours_of:
            ours, factor = ours_of[name]
            gpu = f"{ours} {machine} {one.labels.get('gpu', '')}".strip()
            found[gpu] = [(at, value * factor) for at, value in one.samples]
    for machine, told in memory.items():
        total, free = (told.get(name, {}) for name in _MEMORY)
        found["memory " + machine] = [(at, total[at] - free[at]) for at in sorted(total) if at in free]
    for machine, cores in idle.items():
        sums: dict[float, float] = defaultdict(float)
        for points in cores.values():
            for at, value in points:
                sums[at] += value
        found["cpu " + machine] = [
            (late, min(1.0, max(0.0, 1 - (sums[late] - sums[early]) / (late - early) / len(cores))))
            for early, late in pairwise(sorted(sums))
            if sums[late] >= sums[early]
        ]
    return found


def _machine(labels: Mapping[str, str], machines: Mapping[str, str]) -> str:
    for label in MACHINE_LABELS:
        told = labels.get(label, "")
        for host in (told, told.rpartition(":")[0].strip("[]")):
            if host in machines:
                return machines[host]
            if host and host in machines.values():
                return host
    return ""


def merged(
    system: Mapping[str, Any] | None, scraped: Mapping[str, Points], *, began: float, until: float
) -> Mapping[str, Any] | None:
    """Add what the system figures lack, on their axis of time.

    A value holds until the next scrape; where one is missing, from half as late again on, there is a gap.
    """
    step = (system or {}).get("step", max(1, math.ceil((until - began + 1) / 600)))
    known: dict[str, Any] = dict((system or {}).get("series", {}))
    count = max(map(len, known.values()), default=math.floor((until - began) / step) + 1)
    for name, points in scraped.items():
        if name not in known and (values := _on_axis(points, began, step, count)):
            known[name] = values
    return {"began": began, "step": step, "series": known} if known else system


def _on_axis(points: Points, began: float, step: int, count: int) -> list[float | None]:
    if len(points) < 2:
        return []
    every = min(late - early for (early, _), (late, _) in pairwise(points))
    places: list[list[float]] = [[] for _ in range(count)]
    for (at, value), (following, _) in pairwise([*points, (points[-1][0] + every, 0.0)]):
        until = min(following, at + 1.5 * every)
        first = max(0, math.ceil((at - began) / step))
        for place in range(first, min(count, math.ceil((until - began) / step))):
            places[place].append(value)
    found = [round(fmean(some), 4) if some else None for some in places]
    return found if any(one is not None for one in found) else []
