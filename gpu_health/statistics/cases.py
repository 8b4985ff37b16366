"""What statistics count: incidents, GPUs and prices, and the stretch of time that is asked about."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
MOST_BUCKETS = 400
_STEPS = ((2 * DAY, HOUR), (14 * DAY, 6 * HOUR), (120 * DAY, DAY), (800 * DAY, 7 * DAY))
_EPOCH = datetime(1970, 1, 5, tzinfo=UTC)
"""A Monday: weeks begin with one."""


@dataclass(frozen=True, slots=True)
class TimeSpan:
    begin: datetime
    end: datetime | None = None
    """None: it lasts."""

    def within(self, since: datetime, until: datetime) -> timedelta:
        """The part of it that lies in that stretch."""
        end = until if self.end is None else min(self.end, until)
        return max(timedelta(0), end - max(self.begin, since))


@dataclass(frozen=True, slots=True)
class StatisticsWindow:
    """A span of time from `since` on, before `until`; what lasts is counted up to there."""

    since: datetime
    until: datetime

    def holds(self, at: datetime | None) -> bool:
        return at is not None and self.since <= at < self.until

    @property
    def step(self) -> timedelta:
        """The step of values over time: an hour up to two days, else 6 hours, a day, a week."""
        length = self.until - self.since
        found = next((step for most, step in _STEPS if length <= most), 28 * DAY)
        return found if length <= MOST_BUCKETS * found else (length // MOST_BUCKETS // DAY + 1) * DAY

    def buckets(self) -> Sequence["StatisticsWindow"]:
        """Its stretches between whole hours, days or weeks of UTC; together they are the window."""
        found: list[StatisticsWindow] = []
        at, step = self.since, self.step
        while at < self.until:
            next_at = min(_EPOCH + ((at - _EPOCH) // step + 1) * step, self.until)
            found.append(StatisticsWindow(at, next_at))
            at = next_at
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentCase:
    """An incident as statistics see it."""

    incident: int
    node_id: int
    node: str
    cluster: str
    gpu_model: str
    """Empty: not known."""
    gpus: int
    """Of the machine, all of which are lost while it is out of service."""
    fault: str
    state: str
    seen_at: datetime
    """When the fault was first seen, by the source's own time."""
    found_at: datetime
    """When the incident was opened."""
    returned_at: datetime | None = None
    """When the machine came back to stay; None: not yet, or it was cancelled."""
    actions: int = 0
    out: Sequence[TimeSpan] = ()
    """Out of service: from the cordon that was seen to the return."""

    @property
    def time_to_detect(self) -> timedelta:
        """A source's clock may be ahead of ours."""
        return max(timedelta(0), self.found_at - self.seen_at)

    @property
    def time_to_quarantine(self) -> timedelta | None:
        """The time until quarantine; None: the machine was never taken out of service."""
        return max(timedelta(0), self.out[0].begin - self.seen_at) if self.out else None

    @property
    def time_to_repair(self) -> timedelta | None:
        return max(timedelta(0), self.returned_at - self.seen_at) if self.returned_at else None

    def lost(self, window: StatisticsWindow) -> timedelta:
        """GPU time that was lost in the window."""
        return sum((one.within(window.since, window.until) for one in self.out), timedelta(0)) * self.gpus


@dataclass(frozen=True, slots=True)
class GpuPresence:
    """GPUs of one model in one machine, and when they were there."""

    node_id: int
    gpu_model: str
    count: int
    span: TimeSpan


@dataclass(frozen=True, slots=True)
class Price:
    """The price of an hour of one GPU. Empty: of every cluster, of every model."""

    per_hour: Decimal
    cluster: str = ""
    gpu_model: str = ""


def price_of(prices: Iterable[Price], cluster: str, gpu_model: str) -> Decimal | None:
    """The price of the model in the cluster, else of the model, of the cluster, of all; None: none is set.

    A price is of every model whose name holds its own, `H100` of `NVIDIA H100 80GB HBM3`; the longest wins.
    """
    model = gpu_model.casefold()
    fitting = [one for one in prices if one.cluster in ("", cluster) and one.gpu_model.casefold() in model]
    best = max(fitting, key=lambda one: (len(one.gpu_model), bool(one.cluster)), default=None)
    return best.per_hour if best else None


OUT_FROM = "quarantined"
BACK_AT = ("watching", "closed", "cancelled")


def out_of_service(entries: Iterable[tuple[datetime, str]]) -> tuple[TimeSpan, ...]:
    """When a machine was out of service, by the timeline of its incident: times and the state from then on.

    A machine that a cancelled incident leaves cordoned counts until it was cancelled: from then on it is a
    person's decision.
    """
    found: list[TimeSpan] = []
    began: datetime | None = None
    for at, state in entries:
        if began is None and state == OUT_FROM:
            began = at
        elif began is not None and state in BACK_AT:
            found.append(TimeSpan(began, max(began, at)))
            began = None
    if began is not None:
        found.append(TimeSpan(began))
    return tuple(found)
