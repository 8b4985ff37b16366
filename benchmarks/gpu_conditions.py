"""Whether the GPUs of a run were its own, and ran as fast as they do."""

from collections.abc import Mapping
from typing import Any

from benchmarks.models import BenchmarkRun
from clusters.backends.kinds import abilities_of
from clusters.models import Gpu, Node, Worker
from clusters.states import GpuSharing
from gpu_health.models import Finding

SLOWED = ("clocks.hardware_slowdown", "clocks.thermal_slowdown", "power.brake")
"""Faults of a GPU whose clocks are held back. A cap of its power, which many run at, shows in the clocks."""
AT_WORK = 0.5
"""Share of its time from which on a GPU's clock counts: one at rest lowers it by itself."""


def gpu_conditions(run: BenchmarkRun, system: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the fields of `figures.Summary` that are about GPUs. `system`: see `load.system_series`."""
    if not run.environment.get("gpus"):
        return {}
    machines = Node.objects.filter(cluster=run.benchmark.cluster, name__in=run.environment["machines"])
    slowed = Finding.objects.filter(node__in=machines, fault__in=SLOWED, last_at__gte=run.state_since)
    return {
        "gpu_sharers": sharers(run),
        "gpu_slowdowns": slowed.count(),
        "clock_spread": clock_spread(system or {}),
    }


def sharers(run: BenchmarkRun) -> int:
    """Count what may compute on the run's GPUs beside it: GPUs that are shared by time or MPS, and, where
    GPUs are not handed out to pods, workers of others on their machines."""
    where = {"node__cluster": run.benchmark.cluster, "node__name__in": run.environment["machines"]}
    count = Gpu.objects.filter(sharing__in=(GpuSharing.MPS, GpuSharing.TIME_SLICING), **where).count()
    if not abilities_of(run.benchmark.cluster.kind).has_pods:
        others = Worker.objects.filter(**where).exclude(deployment__name=run.deployment)
        count += others.exclude(deployment__device="cpu").count()
    return count


def clock_spread(system: Mapping[str, Any]) -> float | None:
    """Return by how much the clocks of working GPUs fell, as a share: from the 95th to the 5th percentile, of
    the GPU that fell most; None where no clock was read."""
    series: Mapping[str, Any] = system.get("series", {})
    spreads = []
    for name, clocks in series.items():
        kind, _space, gpu = name.partition(" ")
        if kind != "gpu_clock":
            continue
        uses = series.get(f"gpu_use {gpu}".strip()) or [1.0] * len(clocks)  # untranslated
        pairs = zip(clocks, uses, strict=False)
        told = sorted(clock for clock, use in pairs if clock and (1.0 if use is None else use) >= AT_WORK)
        if told:
            last = len(told) - 1
            spreads.append(1 - told[round(0.05 * last)] / told[round(0.95 * last)])
    return max(spreads, default=None)
