"""The figures: times to detect, to quarantine and to repair, lost GPU time and its cost, availability."""

import statistics
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Self, TypeVar

from gpu_health.statistics.cases import GpuPresence, IncidentCase, Price, StatisticsWindow, TimeSpan, price_of

K = TypeVar("K", bound=Hashable)
ZERO = timedelta(0)
HOUR = timedelta(hours=1)
_MICROSECOND = timedelta(microseconds=1)
_HOUR_MICROSECONDS = Decimal(3_600_000_000)


@dataclass(frozen=True, slots=True)
class DurationSummary:
    """Count and averages of durations, in seconds; None: there are none."""

    count: int = 0
    mean: float | None = None
    median: float | None = None
    p90: float | None = None

    @classmethod
    def of(cls, lengths: Iterable[timedelta | None]) -> Self:
        seconds = sorted(one.total_seconds() for one in lengths if one is not None)
        if not seconds:
            return cls()
        # Nearest rank: a value that was measured.
        p90 = seconds[-(-len(seconds) * 9 // 10) - 1]
        return cls(len(seconds), statistics.fmean(seconds), statistics.median(seconds), p90)


@dataclass(frozen=True, slots=True)
class DowntimeCost:
    """The cost of lost GPU time at the prices that are set; unpriced GPU time is given beside it."""

    amount: Decimal = Decimal(0)
    unpriced: timedelta = ZERO

    def __add__(self, other: "DowntimeCost") -> "DowntimeCost":
        return DowntimeCost(self.amount + other.amount, self.unpriced + other.unpriced)

    @property
    def is_known(self) -> bool:
        """Whether anything has a price; nothing lost costs nothing."""
        return bool(self.amount) or not self.unpriced


@dataclass(frozen=True, slots=True)
class IncidentFigures:
    """Figures of incidents that have something in common."""

    incidents: int
    """First seen in the window."""
    machines: int
    detect: DurationSummary
    """From the fault's first line to the incident, of those first seen in the window."""
    quarantine: DurationSummary
    """From the fault's first line to the cordon, of the same."""
    repair: DurationSummary
    """From the fault's first line to the return to service, of those that returned in the window."""
    actions: int
    open: int
    """Not ended yet."""
    lost: timedelta
    """GPU time lost in the window, of all that were out of service in it."""
    cost: DowntimeCost

    @classmethod
    def none(cls) -> Self:
        return cls(0, 0, DurationSummary(), DurationSummary(), DurationSummary(), 0, 0, ZERO, DowntimeCost())

    @property
    def lost_gpu_hours(self) -> float:
        return self.lost / HOUR


@dataclass(frozen=True, slots=True)
class Availability:
    gpu_model: str
    gpus: int
    """At the end of the window."""
    total: timedelta
    """GPU time that there was."""
    lost: timedelta

    @property
    def share(self) -> float | None:
        """Share of the time in service; None: there were no such GPUs."""
        return max(0.0, min(1.0, 1 - self.lost / self.total)) if self.total else None


@dataclass(frozen=True, slots=True)
class StatisticsPoint:
    """A stretch of the window."""

    window: StatisticsWindow
    availability: dict[str, Availability]
    """By GPU model."""
    lost: dict[str, timedelta]
    """GPU time by fault."""


@dataclass(frozen=True, slots=True)
class StatisticsReport:
    window: StatisticsWindow
    total: IncidentFigures
    by_fault: dict[str, IncidentFigures]
    """The most frequent first."""
    by_model: dict[str, IncidentFigures]
    by_node: dict[int, IncidentFigures]
    availability: dict[str, Availability]
    overall: Availability
    moments: Sequence[StatisticsPoint]


def report(
    cases: Sequence[IncidentCase],
    fleet: Sequence[GpuPresence],
    prices: Sequence[Price],
    window: StatisticsWindow,
) -> StatisticsReport:
    """`cases`: those first seen before the window's end that had not ended before its beginning."""
    fleet = _merged(fleet, window)
    return StatisticsReport(
        window=window,
        total=figures(cases, prices, window),
        by_fault=_grouped(cases, prices, window, lambda one: one.fault),
        by_model=_grouped(cases, prices, window, lambda one: one.gpu_model),
        by_node=_grouped(cases, prices, window, lambda one: one.node_id),
        availability=(parts := availability(cases, fleet, window)),
        overall=Availability(
            "",
            sum(one.gpus for one in parts.values()),
            sum((one.total for one in parts.values()), ZERO),
            sum((one.lost for one in parts.values()), ZERO),
        ),
        moments=[
            StatisticsPoint(bucket, availability(there, fleet, bucket), _lost_by_fault(there, bucket))
            for bucket, there in _by_bucket(cases, window.buckets())
        ],
    )


def figures(
    cases: Sequence[IncidentCase], prices: Sequence[Price], window: StatisticsWindow
) -> IncidentFigures:
    begun = [one for one in cases if window.holds(one.seen_at)]
    return IncidentFigures(
        incidents=len(begun),
        machines=len({one.node_id for one in begun}),
        detect=DurationSummary.of(one.time_to_detect for one in begun),
        quarantine=DurationSummary.of(one.time_to_quarantine for one in begun),
        repair=DurationSummary.of(one.time_to_repair for one in cases if window.holds(one.returned_at)),
        actions=sum(one.actions for one in begun),
        open=sum(one.state not in ("closed", "cancelled") for one in cases),
        lost=sum((one.lost(window) for one in cases), ZERO),
        cost=sum((cost_of(one, prices, window) for one in cases), DowntimeCost()),
    )


def cost_of(case: IncidentCase, prices: Sequence[Price], window: StatisticsWindow) -> DowntimeCost:
    lost = case.lost(window)
    price = price_of(prices, case.cluster, case.gpu_model)
    if price is None:
        return DowntimeCost(unpriced=lost)
    return DowntimeCost(price * (lost // _MICROSECOND) / _HOUR_MICROSECONDS)


def availability(
    cases: Sequence[IncidentCase], fleet: Sequence[GpuPresence], window: StatisticsWindow
) -> dict[str, Availability]:
    """Return availability by GPU model, of all that were there or lost GPU time in the window."""
    total: dict[str, timedelta] = defaultdict(timedelta)
    gpus: dict[str, int] = defaultdict(int)
    lost: dict[str, timedelta] = defaultdict(timedelta)
    for one in fleet:
        total[one.gpu_model] += one.span.within(window.since, window.until) * one.count
        if one.span.begin < window.until and (one.span.end is None or one.span.end >= window.until):
            gpus[one.gpu_model] += one.count
    for case in cases:
        if gone := case.lost(window):
            lost[case.gpu_model] += gone
    return {
        model: Availability(model, gpus[model], total[model], lost[model])
        for model in sorted({*total, *lost})
        if total[model] or lost[model]
    }


def _merged(fleet: Sequence[GpuPresence], window: StatisticsWindow) -> Sequence[GpuPresence]:
    """The same GPU time in fewer pieces: thousands of machines were there all the time."""
    counts: Counter[tuple[str, TimeSpan]] = Counter()
    for one in fleet:
        end = one.span.end if one.span.end is not None and one.span.end < window.until else None
        counts[one.gpu_model, TimeSpan(max(one.span.begin, window.since), end)] += one.count
    return [GpuPresence(0, model, count, span) for (model, span), count in counts.items()]


def _by_bucket(
    cases: Sequence[IncidentCase], buckets: Sequence[StatisticsWindow]
) -> Iterator[tuple[StatisticsWindow, list[IncidentCase]]]:
    """Each with those that were out of service in it, perhaps."""
    there: list[list[IncidentCase]] = [[] for _ in buckets]
    begins = [one.since for one in buckets]
    for case in cases:
        if not case.out:
            continue
        end = case.out[-1].end
        first = max(0, bisect_right(begins, case.out[0].begin) - 1)
        last = len(buckets) if end is None else bisect_right(begins, end)
        for members in there[first:last]:
            members.append(case)
    return zip(buckets, there, strict=True)


def _grouped(
    cases: Sequence[IncidentCase],
    prices: Sequence[Price],
    window: StatisticsWindow,
    key: Callable[[IncidentCase], K],
) -> dict[K, IncidentFigures]:
    groups: dict[K, list[IncidentCase]] = defaultdict(list)
    for one in cases:
        groups[key(one)].append(one)
    found = {name: figures(members, prices, window) for name, members in groups.items()}
    return dict(sorted(found.items(), key=lambda item: (-item[1].incidents, -item[1].lost, str(item[0]))))


def _lost_by_fault(cases: Sequence[IncidentCase], window: StatisticsWindow) -> dict[str, timedelta]:
    found: dict[str, timedelta] = defaultdict(timedelta)
    for case in cases:
        if lost := case.lost(window):
            found[case.fault] += lost
    return dict(found)
