"""Answers of each target of a route, minute by minute, from stored readings of cumulative counts. Pure.

A reading is kept as it was counted, not as a difference: nobody has to remember the one before it, a writer
that dies leaves a gap instead of a wrong figure, and any two readings of one start of the gateway can be
compared.
"""

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, groupby, pairwise
from typing import Any

import orjson

from gateway.latency import BOUNDS_MS, Histogram, since
from gateway.traffic import TargetCounts, TargetTraffic, rates

Counts = Mapping[str, TargetCounts]
BOUNDS = (*BOUNDS_MS, math.inf)
GAP_FACTOR = 2.5
"""Readings further apart than so many times what was asked for leave a gap."""


@dataclass(frozen=True, slots=True)
class TrafficInterval:
    """Traffic between two readings."""

    began_at: datetime
    at: datetime
    targets: Mapping[str, TargetTraffic] | None
    """By target; None: not known, because nobody read the counts or the gateway started again meanwhile."""

    @property
    def seconds(self) -> float:
        return (self.at - self.began_at).total_seconds()


def minute_of(at: datetime) -> int:
    """Whole minutes since 1970."""
    return int(at.timestamp() // 60)


def hour_of(at: datetime) -> int:
    """Whole hours since 1970."""
    return int(at.timestamp() // 3600)


def packed(counts: Counts) -> dict[str, Any]:
    """Return the counts as JSON; of a histogram only buckets that hold anything, as `[bound, requests]`."""
    return {
        name: {
            "epoch": one.epoch,
            "since": one.since.isoformat(),
            "counts": [
                one.routed,
                one.requests,
                one.errors,
                one.broken,
                one.abandoned,
                one.forced_requests,
                one.forced_errors,
            ],
            "latency": packed_histogram(one.latency_ms),
            "first_byte": packed_histogram(one.first_byte_ms),
        }
        for name, one in counts.items()
    }


def unpacked(document: Mapping[str, Any]) -> dict[str, TargetCounts]:
    """Return the counts that were `packed`, without requests in flight."""
    found = {}
    for name, one in document.items():
        routed, requests, errors, broken, abandoned, forced_requests, forced_errors = one["counts"]
        found[name] = TargetCounts(
            epoch=one["epoch"],
            since=datetime.fromisoformat(one["since"]),
            routed=routed,
            requests=requests,
            errors=errors,
            broken=broken,
            abandoned=abandoned,
            forced_requests=forced_requests,
            forced_errors=forced_errors,
            latency_ms=unpacked_histogram(one["latency"]),
            first_byte_ms=unpacked_histogram(one["first_byte"]),
            in_flight=0,
        )
    return found


def stretches(
    readings: Sequence[tuple[datetime, Counts]], *, expected_seconds: float
) -> list[TrafficInterval]:
    """Between each two neighbours of `readings`, oldest first, that should be so many seconds apart."""
    return [
        TrafficInterval(
            began_at, at, _between(before, after, (at - began_at).total_seconds(), expected_seconds)
        )
        for (began_at, before), (at, after) in pairwise(readings)
        if at > began_at
    ]


def _between(
    before: Counts, after: Counts, seconds: float, expected_seconds: float
) -> Mapping[str, TargetTraffic] | None:
    if seconds > GAP_FACTOR * expected_seconds:
        return None
    started_again = {
        name for name, counts in after.items() if name in before and before[name].epoch != counts.epoch
    }
    if started_again:
        return None
    return rates(before, after, seconds)


def packed_histogram(histogram: Histogram) -> list[list[float | int | None]]:
    """Return the buckets that hold anything, as `[bound, requests]`; the last bound is null."""
    found: list[list[float | int | None]] = []
    below = 0
    for bound, count in histogram:
        if count > below:
            found.append([bound if math.isfinite(bound) else None, count - below])
        below = count
    return found


def unpacked_histogram(buckets: Sequence[Sequence[Any]]) -> Histogram:
    """Return the histogram that was packed by `packed_histogram`."""
    held = {math.inf if bound is None else float(bound): int(count) for bound, count in buckets}
    return tuple(zip(BOUNDS, accumulate(held.get(bound, 0) for bound in BOUNDS), strict=True))


@dataclass(frozen=True, slots=True)
class IntervalCounts:
    """Answers of one target between two readings."""

    requests: int
    errors: int
    latency_ms: Histogram
    seconds: float


def answered(readings: Sequence[tuple[datetime, Counts]], target: str) -> list[IntervalCounts]:
    """Between each two neighbours of `readings`, oldest first, in which the target's counters only rose.

    With a single reading, all that it counts.
    """
    known = [(at, reading[target]) for at, reading in readings if target in reading]
    if len(known) == 1:
        at, counts = known[0]
        seconds = (at - counts.since).total_seconds()
        return [IntervalCounts(counts.requests, counts.errors, counts.latency_ms, seconds)]
    return [
        IntervalCounts(
            after.requests - before.requests,
            after.errors - before.errors,
            since(before.latency_ms, after.latency_ms),
            (ended_at - began_at).total_seconds(),
        )
        for (began_at, before), (ended_at, after) in pairwise(known)
        if before.epoch == after.epoch and after.requests > before.requests and after.errors >= before.errors
    ]


@dataclass(frozen=True, slots=True)
class ServiceAnswers:
    """Answers of all targets of a service between two readings."""

    began_at: datetime
    at: datetime
    requests: int
    errors: int
    latency_ms: Histogram
    """Of whole answers below 400; empty: there was none."""


def answers_of_all(readings: Sequence[tuple[datetime, Counts]]) -> list[ServiceAnswers]:
    """Between each two neighbours of `readings`, oldest first, however far apart.

    Of an interval in which the gateway started again, what it has counted since then.
    """
    found = []
    for (began_at, before), (at, after) in pairwise(readings):
        if at <= began_at:
            continue
        requests = errors = 0
        below = dict.fromkeys(BOUNDS, 0)
        for name, counts in after.items():
            known = before.get(name)
            if known and known.epoch != counts.epoch and counts.since >= began_at:
                known = None
            if known and (known.epoch != counts.epoch or known.requests > counts.requests):
                continue
            requests += counts.requests - (known.requests if known else 0)
            errors += counts.errors - (known.errors if known else 0)
            for bound, number in counts.latency_ms:
                below[bound] += number
            for bound, number in known.latency_ms if known else ():
                below[bound] -= number
        latency = tuple(below.items()) if below[math.inf] > 0 else ()
        found.append(ServiceAnswers(began_at, at, requests, min(errors, requests), latency))
    return found


@dataclass(frozen=True, slots=True)
class KeptReading:
    """The columns of a kept reading."""

    minute: int
    at: datetime
    counts: Mapping[str, Any]
    figures: Mapping[str, Any]


def packed_hour(readings: Iterable[KeptReading]) -> bytes:
    """Return the readings of an hour in a tenth of their size."""
    rows = [[one.minute, one.at.isoformat(), one.counts, one.figures] for one in readings]
    return zlib.compress(orjson.dumps(rows), 6)


def unpacked_hour(packed: bytes | memoryview) -> Iterator[KeptReading]:
    for minute, at, counts, figures in orjson.loads(zlib.decompress(packed)):
        yield KeptReading(minute, datetime.fromisoformat(at), counts, figures)


def last_of_each(readings: Iterable[KeptReading], minutes: int) -> list[KeptReading]:
    """Return the last reading of each step of so many minutes, oldest first."""
    ascending = sorted(readings, key=lambda one: one.minute)
    return [list(step)[-1] for _, step in groupby(ascending, lambda one: one.minute // minutes)]
