from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from common.live.touch import touch
from common.reconcile import Operation, Recurring, StepOutcome, wait
from gateway import selectors as gateway
from gateway.history import ServiceAnswers
from gateway.latency import total
from objectives.budget import KEPT_MINUTES, GoodAndBad, added, hour_of, minute_of
from objectives.models import ObjectiveCount, ServiceObjective

LATE = timedelta(minutes=5)
"""Answers of a longer time are no burn of one minute: they count for the hour alone."""


@dataclass(frozen=True, slots=True)
class CountedObjective:
    row: ServiceObjective
    was_counted_until: datetime | None


class CountObjectives(Recurring[ObjectiveCount]):
    """Adds the answers since the last look to every objective, from the gateway's kept counts."""

    name = "count objectives"
    model = ObjectiveCount
    every = timedelta(seconds=30)

    def observe(self, row: ObjectiveCount, operation: Operation) -> list[CountedObjective]:
        return [
            counted
            for objective in ServiceObjective.objects.select_related("service")
            if (counted := _counted(objective, operation.at))
        ]

    def settle(self, row: ObjectiveCount, seen: list[CountedObjective], now: datetime) -> StepOutcome:
        def write() -> None:
            for one in seen:
                # Somebody may have changed what is good meanwhile: it is counted anew then.
                rows = ServiceObjective.objects.filter(
                    pk=one.row.pk, counted_until=one.was_counted_until, latency_ms=one.row.latency_ms
                )
                rows.update(counted_until=one.row.counted_until, minutes=one.row.minutes, hours=one.row.hours)
            if seen:
                touch("changes", "objectives")

        return wait(self.every, write=write)


def _counted(row: ServiceObjective, now: datetime) -> CountedObjective | None:
    """Return the objective with what is new; None: nothing is."""
    since = row.counted_until or now - row.window
    fine_since = now - timedelta(minutes=KEPT_MINUTES)
    answers = gateway.answers_since(row.service.name, since, fine_since=fine_since)
    answers = [one for one in answers if row.counted_until is None or one.began_at >= row.counted_until]
    if not answers:
        return None
    was = row.counted_until
    recent = [one for one in answers if one.at - one.began_at <= LATE]
    row.minutes = added(
        row.minute_counts, _split(row, recent, minute_of), since=minute_of(now) - KEPT_MINUTES
    )
    row.hours = added(row.hour_counts, _split(row, answers, hour_of), since=hour_of(now - row.window))
    row.counted_until = answers[-1].at
    return CountedObjective(row, was)


def _split(
    row: ServiceObjective, answers: Sequence[ServiceAnswers], number_of: Callable[[datetime], int]
) -> list[GoodAndBad]:
    return [GoodAndBad(number_of(one.at), *_good_and_bad(row, one)) for one in answers]


def _good_and_bad(row: ServiceObjective, one: ServiceAnswers) -> tuple[int, int]:
    """Return how many requests count, and how many of them are bad."""
    if row.latency_ms is None:
        return one.requests, one.errors
    whole = total(one.latency_ms)
    return whole, whole - dict(one.latency_ms).get(row.latency_ms, 0)
