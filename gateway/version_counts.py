"""The latest counts of every version that a route leads to."""

from dataclasses import dataclass
from datetime import datetime

from gateway.history import minute_of, unpacked
from gateway.models import TrafficReading
from gateway.traffic import TargetCounts
from gateway.worker_figures import WorkerFigures, unpacked_figures


@dataclass(frozen=True, slots=True)
class VersionCounts:
    """The answers of one side of a service."""

    service: str
    version: str
    side: str
    """`stable` or `candidate`."""
    counts: TargetCounts
    figures: WorkerFigures | None
    """Of workers that run a team's own code."""


def counts_by_version(*, since: datetime) -> list[VersionCounts]:
    """The latest counts that were kept since then, of every service that has a route. One query."""
    kept = TrafficReading.objects.filter(route__removed_at=None, minute__gte=minute_of(since))
    latest = {reading.route.service: reading for reading in kept.select_related("route").order_by("minute")}
    found = []
    for service, reading in sorted(latest.items()):
        route, counts = reading.route, unpacked(reading.counts)
        figures = unpacked_figures(reading.figures)
        sides = (
            ("stable", route.stable_target, route.stable_version),
            ("candidate", route.candidate_target, route.candidate_version),
        )
        found += [
            VersionCounts(service, version, side, counts[target], figures.get(target))
            for side, target, version in sides
            if target in counts
        ]
    return found
