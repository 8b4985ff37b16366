"""Counts of each version, and the traffic between two readings. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from gateway.latency import Histogram, quantile_ms, since

SHARES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class TargetCounts:
    """Cumulative since `since`, and no figure falls while the `epoch` stays; another one is a reset: readings
    of two epochs cannot be subtracted.

    Requests whose client forced the side with `x-release` are no random sample, so only the two `forced_`
    figures and `in_flight` know of them: everything else describes requests whose side the gateway chose by
    weight.
    """

    epoch: str
    since: datetime
    routed: int
    """Requests sent to this target, counted as they arrive: the split, without waiting for slow answers.
    Those by an ability are in the other figures alone: they follow no share."""
    requests: int
    """Requests that were answered, counted as their answer ends."""
    errors: int
    """Those of `requests` answered 500-599, by the worker or by the gateway for want of one, or cut off
    midway."""
    broken: int
    """The class of those `errors` that were cut off midway; the rest are answers of 500-599."""
    abandoned: int
    """Requests whose client went away before any answer; not in `requests`."""
    forced_requests: int
    forced_errors: int
    latency_ms: Histogram
    """From the first byte of the request to the last of the answer, of whole answers below 400. Up to a
    second behind the counters."""
    first_byte_ms: Histogram
    """The same to the first byte of the answer: time to first token, where the worker streams."""
    in_flight: int
    """Requests not ended yet, forced ones included."""


@dataclass(frozen=True, slots=True)
class CountsReading:
    """Counts by target, and who read them: asked now, or `age_seconds` ago by another `host`."""

    counts: Mapping[str, TargetCounts]
    age_seconds: float = 0.0
    host: str = ""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Milliseconds; None without a good answer in the stretch."""

    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class TargetTraffic:
    """The traffic of one target in an interval of `seconds`."""

    seconds: float
    requests: int
    """Answered requests whose side the gateway chose; so are the errors, the latencies and the rates."""
    errors: int
    broken: int
    """Those of `errors` that were cut off midway."""
    abandoned: int
    forced_requests: int
    requests_per_s: float
    error_share: float | None
    """0..1; None without requests."""
    latency_ms: Quantiles
    first_byte_ms: Quantiles
    in_flight: int


def rates(
    before: Mapping[str, TargetCounts], after: Mapping[str, TargetCounts], seconds: float
) -> dict[str, TargetTraffic]:
    """Traffic per target of `after`, between two readings `seconds` apart.

    What was counted across a reset is not known, and left out: too little rather than nonsense. Raises
    ValueError unless seconds are positive.
    """
    if seconds <= 0:
        raise ValueError(f"Two readings cannot lie {seconds} s apart.")
    return {name: _between(before.get(name), counts, seconds) for name, counts in after.items()}


def _between(before: TargetCounts | None, after: TargetCounts, seconds: float) -> TargetTraffic:
    if before is not None and (before.epoch != after.epoch or _runs_back(before, after)):
        before = after
    if before is None:
        before = replace(
            after,
            routed=0,
            requests=0,
            errors=0,
            broken=0,
            abandoned=0,
            forced_requests=0,
            forced_errors=0,
            latency_ms=(),
            first_byte_ms=(),
        )
    requests = after.requests - before.requests
    # Numbers are read one after the other: an error may be seen a moment before its request.
    errors = min(after.errors - before.errors, requests)
    return TargetTraffic(
        seconds=seconds,
        requests=requests,
        errors=errors,
        broken=min(after.broken - before.broken, errors),
        abandoned=after.abandoned - before.abandoned,
        forced_requests=after.forced_requests - before.forced_requests,
        requests_per_s=requests / seconds,
        error_share=errors / requests if requests else None,
        latency_ms=_quantiles(before.latency_ms, after.latency_ms),
        first_byte_ms=_quantiles(before.first_byte_ms, after.first_byte_ms),
        in_flight=after.in_flight,
    )


def _runs_back(before: TargetCounts, after: TargetCounts) -> bool:
    return any(
        getattr(before, name) > getattr(after, name)
        for name in ("requests", "errors", "broken", "abandoned", "forced_requests", "forced_errors")
    ) or any(
        early > late
        for old, new in ((before.latency_ms, after.latency_ms), (before.first_byte_ms, after.first_byte_ms))
        for (_, early), (_, late) in zip(old, new, strict=False)
    )


def _quantiles(before: Histogram, after: Histogram) -> Quantiles:
    stretch = since(before, after)
    return Quantiles(*(quantile_ms(stretch, share) for share in SHARES))
