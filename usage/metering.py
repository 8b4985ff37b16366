"""From readings of gateways, and from workers on GPUs, to what a version and a key used in a day. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from gateway.client_access import NO_KEY, ClientCounts, ClientReading, Processes
from gateway.traffic import TargetCounts

Counts = Mapping[tuple[str, str], ClientCounts]
"""By target and key."""


@dataclass(frozen=True, slots=True)
class MeterReading:
    """What one route's gateway had counted at one moment."""

    day: date
    targets: Mapping[str, TargetCounts]
    clients: ClientReading | None
    """None: it does not count by key."""
    processes: Processes | None = None
    """What each process of its workers counted; None: the gateway counts, or none was heard."""


def used_between(before: MeterReading | None, after: MeterReading) -> Counts:
    """Return what was counted between two readings of a route; `before` is None for its first.

    A gateway that started again meanwhile counts from zero: what it counted after its last reading, a minute
    at most, is lost.
    """
    if after.clients is not None:
        earlier = before.clients if before else None
        same = earlier is not None and earlier.epoch == after.clients.epoch
        known: Counts = earlier.counts if same and earlier else {}
        return _more(after.clients.counts, known)
    processes = after.processes or {}
    reporting = {process.target for process in processes.values()}
    found, known = {}, {}
    for target, counts in after.targets.items():
        if target in reporting:
            continue
        old = before.targets.get(target) if before else None
        found[target, NO_KEY] = _of_version(counts)
        if old is not None and old.epoch == counts.epoch:
            known[target, NO_KEY] = _of_version(old)
    return _more(found, known) | _of_processes((before and before.processes) or {}, processes)


def used(readings: Sequence[MeterReading], before: MeterReading | None) -> dict[date, Counts]:
    """Return what was counted over consecutive readings of a route, by the day in which it was read."""
    found: dict[date, dict[tuple[str, str], ClientCounts]] = {}
    for reading in readings:
        of_day = found.setdefault(reading.day, {})
        for of, counts in used_between(before, reading).items():
            of_day[of] = of_day.get(of, ClientCounts()) + counts
        before = reading
    return dict(found)


def _of_processes(before: Processes, after: Processes) -> dict[tuple[str, str], ClientCounts]:
    """A process counts from the first reading that knows it: one unheard for a while is not new."""
    found: dict[tuple[str, str], ClientCounts] = {}
    for name, process in after.items():
        if (known := before.get(name)) is not None:
            of = process.target, NO_KEY
            found[of] = found.get(of, ClientCounts()) + process.counts.since(known.counts)
    return {of: counts for of, counts in found.items() if any(counts.as_numbers())}


def _of_version(counts: TargetCounts) -> ClientCounts:
    return ClientCounts(
        requests=counts.requests + counts.forced_requests, errors=counts.errors + counts.forced_errors
    )


def _more(after: Counts, before: Counts) -> dict[tuple[str, str], ClientCounts]:
    found = {of: counts.since(before.get(of)) for of, counts in after.items()}
    return {of: counts for of, counts in found.items() if any(counts.as_numbers())}


def keys_of(counts: Iterable[Counts]) -> set[int]:
    return {int(key) for one in counts for _, key in one if key != NO_KEY}
