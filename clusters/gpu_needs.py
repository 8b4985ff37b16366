"""GPU memory and Busy of a service as they were measured: by its workers, or by apps above."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import ceil

from django.db.models import QuerySet

from clusters.backends.gpu_names import slice_part
from clusters.kept_history import KEPT, kept_values
from clusters.models import Deployment
from common import clock

MOST_DAYS = KEPT.days
WORKERS = "workers"
"""Source of what heartbeats say."""


@dataclass(frozen=True, slots=True)
class MeasuredNeed:
    """Needs of one worker of a service. None: not measured.

    share: P95 of the share of a card's time that its Busy rate comes to, at most. minutes: in which it was
    measured; 0: a single measurement. gpus: whole cards that each worker holds. measured_by: `workers`, or
    the app that measured.
    """

    service: str
    days: int
    minutes: int = 0
    memory_p95_mib: int | None = None
    memory_peak_mib: int | None = None
    busy_p95: float | None = None
    share: float | None = None
    gpus: int = 1
    measured_by: str = WORKERS

    @property
    def is_known(self) -> bool:
        return self.memory_peak_mib is not None and self.share is not None


NeedSource = Callable[[Deployment], Iterable[MeasuredNeed]]
_SOURCES: dict[str, NeedSource] = {}


def register_need_source(name: str, source: NeedSource) -> None:
    """Let an app above say what it measured of a deployment's version, the latest first."""
    _SOURCES[name] = source


def measured_needs(deployments: "QuerySet[Deployment]", *, days: int) -> list[MeasuredNeed]:
    """Return the measured need of each service of these deployments that has GPUs, by name.

    Workers' own words come first; other sources fill in where there is no figure.
    """
    of_service: dict[str, list[Deployment]] = {}
    for row in deployments.exclude(device="cpu").order_by("-pk"):
        of_service.setdefault(row.service, []).append(row)
    return [_need(service, rows, days) for service, rows in sorted(of_service.items())]


def _need(service: str, rows: Sequence[Deployment], days: int) -> MeasuredNeed:
    now = clock.now()
    since, until = (int(at.timestamp() // 60) for at in (now - timedelta(days=days), now))
    subjects = {f"deployment:{row.name}": row for row in rows}
    memory = kept_values(list(subjects), "gpu_memory", since=since, until=until)
    busy = kept_values(list(subjects), "busy", since=since, until=until)
    sizes = [size for values in memory.values() for size in values.values()]
    # Busy counts where GPU memory was measured, too: elsewhere it may be of a worker without a GPU.
    pairs = [
        (value, _part(subjects[subject]))
        for subject, values in busy.items()
        for minute, value in values.items()
        if minute in memory[subject]
    ]
    own = MeasuredNeed(
        service,
        days,
        minutes=len(sizes),
        memory_p95_mib=_rounded(_p95(sizes)),
        memory_peak_mib=_rounded(max(sizes, default=None)),
        busy_p95=_p95([value for value, _ in pairs]),
        share=_p95([value * part for value, part in pairs]),
        gpus=max(1, int(rows[0].resources.get("gpus_per_worker", 1))),
    )
    if own.is_known:
        return own
    others = (found for source in _SOURCES.values() for found in source(rows[0]))
    return next((one for one in others if one.is_known), own)


def _part(row: Deployment) -> float:
    """Return the part of a card's time that each of its workers has at most."""
    return slice_part(row.resources.get("gpu_resource") or "")


def _p95(values: Sequence[float]) -> float | None:
    """Return the value that 95 % do not exceed (nearest rank); None without values."""
    return sorted(values)[ceil(0.95 * len(values)) - 1] if values else None


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)
