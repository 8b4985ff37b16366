"""GPU memory and use of a version as its latest benchmark run measured them, for plans of shared cards."""

from collections.abc import Iterable, Sequence
from math import ceil

from benchmarks.models import SystemSeries
from benchmarks.states import RunState
from clusters.gpu_needs import MeasuredNeed
from clusters.models import Deployment

MIB = 2**20


def of_benchmarks(deployment: Deployment) -> Iterable[MeasuredNeed]:
    """Yield the need that the latest valid run of its version and engine on one GPU had."""
    rows = SystemSeries.objects.filter(
        run__cell__version=deployment.version_id,
        run__cell__engine=deployment.engine,
        run__state=RunState.VALID,
    )
    for row in rows.order_by("-run__ended_at")[:5]:
        series = row.content.get("series", {})
        memory, use = (_only(series, name) for name in ("gpu_memory", "gpu_use"))
        if memory and use:
            busy = _p95(use)
            yield MeasuredNeed(
                deployment.service,
                days=0,
                memory_p95_mib=ceil(_p95(memory) / MIB),
                memory_peak_mib=ceil(max(memory) / MIB),
                busy_p95=busy,
                share=busy,
                measured_by="benchmarks",
            )


def _only(series: dict[str, Sequence[float | None]], figure: str) -> list[float]:
    """Return the known values of the one GPU that has this figure; none where several have."""
    found = [values for name, values in series.items() if name.partition(" ")[0] == figure]
    return [value for value in found[0] if value is not None] if len(found) == 1 else []


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[ceil(0.95 * len(values)) - 1]
