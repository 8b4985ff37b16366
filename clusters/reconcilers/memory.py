from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from clusters import selectors
from clusters.history import MEASURES, MINUTES, figures_of_minute, packed_minute, unpacked_minute, with_values
from clusters.kept_history import KEPT, known_gpus, known_hosts
from clusters.models import FleetDay, FleetMemory, FleetMinute
from clusters.second_frames import KEEP, frames
from common.live.redis import NotShared
from common.reconcile import Operation, Recurring, StepOutcome, wait

CATCH_UP_MINUTES = int(KEEP / timedelta(minutes=1)) - 1
MINUTES_APART = 120
"""Minutes that wait to be put into days, at most: a whole hour of them at once."""
ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class NewMinutes:
    until: int
    packed: dict[int, bytes] = field(default_factory=dict)


class RememberFleet(Recurring[FleetMemory]):
    """Keeps the minutes that have ended since the last look, and puts whole hours of them into days."""

    name = "remember the fleet"
    model = FleetMemory
    every = timedelta(seconds=20)

    def observe(self, row: FleetMemory, operation: Operation) -> NewMinutes:
        ended = _minute(operation.at) - 1
        found = NewMinutes(ended)
        fleet, gpus, hosts = selectors.whole_fleet(), known_gpus(), known_hosts()
        for minute in range(max(row.kept_minute + 1, ended - CATCH_UP_MINUTES), ended + 1):
            try:
                seconds = frames(range(minute * 60, minute * 60 + 60))
            except NotShared:
                break
            if seconds:
                found.packed[minute] = packed_minute(figures_of_minute(seconds, fleet, gpus, hosts))
        return found

    def settle(self, row: FleetMemory, seen: NewMinutes, now: datetime) -> StepOutcome:
        def write() -> None:
            FleetMinute.objects.bulk_create(
                [FleetMinute(minute=minute, packed=packed) for minute, packed in seen.packed.items()],
                ignore_conflicts=True,
            )
            fold_hours(before=_minute(now) // 60 * 60)
            FleetDay.objects.filter(day__lt=_minute(now - KEPT) // MINUTES).delete()

        return wait(self.every, save={"kept_minute": max(row.kept_minute, seen.until)}, write=write)


def fold_hours(*, before: int) -> None:
    """Put the minutes before that one, of one day, into days: a row for each subject."""
    rows = list(FleetMinute.objects.filter(minute__lt=before).order_by("minute")[:MINUTES_APART])
    rows = [one for one in rows if one.minute // MINUTES == rows[0].minute // MINUTES]
    if not rows:
        return
    day = rows[0].minute // MINUTES
    columns: dict[str, dict[int, list[int | None]]] = defaultdict(dict)
    for one in rows:
        for subject, figures in unpacked_minute(one.packed).items():
            columns[subject][one.minute % MINUTES] = list(figures)
    subjects = sorted(columns)
    for start in range(0, len(subjects), ROWS_AT_ONCE):
        _fold(day, {name: columns[name] for name in subjects[start : start + ROWS_AT_ONCE]})
    FleetMinute.objects.filter(pk__in=[one.pk for one in rows]).delete()


def _fold(day: int, columns: dict[str, dict[int, list[int | None]]]) -> None:
    kept = {one.subject: one for one in FleetDay.objects.filter(day=day, subject__in=list(columns))}
    new = []
    for subject, by_minute in columns.items():
        row = kept.get(subject) or FleetDay(subject=subject, day=day)
        for place, measure in enumerate(MEASURES):
            values = {minute: figures[place] for minute, figures in by_minute.items() if place < len(figures)}
            if any(value is not None for value in values.values()):
                setattr(row, measure, with_values(getattr(row, measure), measure, values))
        if subject not in kept:
            new.append(row)
    FleetDay.objects.bulk_create(new)
    FleetDay.objects.bulk_update(kept.values(), MEASURES, batch_size=100)


def _minute(at: datetime) -> int:
    return int(at.timestamp() // 60)
