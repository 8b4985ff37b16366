"""All figures of a window, recomputed from its records. Pure; docs/BENCHMARKS.md defines each."""

import bisect
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from benchmarks import statistics
from benchmarks.load.records import RequestRecord, WindowRecord
from benchmarks.load.scenario import LatencyTargets, LoadScenario

SAMPLE_FLOORS: Mapping[int, int] = {50: 10, 90: 44, 95: 90, 99: 459}
"""Requests below which a percentile is not reported: with as many, none is above it with a chance of 1 %."""


@dataclass(frozen=True, slots=True)
class WindowFigure:
    name: str
    unit: str
    value: float
    low: float | None = None
    high: float | None = None
    """Within the window: they describe it, and compare nothing."""
    samples: int = 0


@dataclass(frozen=True, slots=True)
class Summary:
    """A window in figures, and what the rules of validity look at."""

    window: int
    rate: float
    figures: Mapping[str, WindowFigure]
    good_share: float
    good: int
    counted: int
    errors: Mapping[str, int]
    cut: int
    """Leading requests that were still warm-up."""
    lateness_p99_ms: float
    send_share: float
    """How fast requests were sent, as a share of the schedule."""
    in_flight_slope: float
    """Growth of the requests in flight over the window, as a share of their mean."""
    in_flight_t: float
    short_outputs: float
    """Share of answers that have another number of tokens than asked for."""
    uncounted: float
    """Share of answers whose tokens the server did not count."""
    input_ratio: float | None
    """Prompt tokens by the server over those that were meant."""
    client_cpu: float
    prefix_hits: float | None
    restarts: int
    gpu_sharers: int = 0
    """What else may compute on its GPUs: see `gpu_conditions`."""
    gpu_slowdowns: int = 0
    """Findings of GPUs whose clocks were held back."""
    clock_spread: float | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> "Summary":
        """Read what `as_json` wrote."""
        figures = {name: WindowFigure(**one) for name, one in told["figures"].items()}
        return cls(**{**told, "figures": figures})

    def value(self, name: str) -> float | None:
        found = self.figures.get(name)
        return found.value if found else None


def summarise(
    window: WindowRecord, scenario: LoadScenario, *, price_per_hour: float | None = None
) -> Summary:
    """`price_per_hour`: of all GPUs that serve; None: not known."""
    records = window.requests
    answered = [one for one in records if one.is_good]
    cut = statistics.mser5([_e2e(one) for one in answered])
    steady = answered[cut:]
    seconds = _seconds(window)
    good = [one for one in records if is_within(one, scenario.targets)]
    figures: dict[str, WindowFigure] = {}

    def tell(name: str, value: float | None, unit: str, samples: int = 0) -> None:
        if value is not None and math.isfinite(value):
            figures[name] = WindowFigure(name, unit, value, samples=samples)

    latencies = {
        "ttft": [value for one in steady if (value := ttft(one)) is not None],
        "ttft_send": [(one.first - one.sent) * 1000 for one in steady if one.first is not None],
        "tpot": [value for one in steady if (value := tpot(one)) is not None],
        "itl": [gap for one in steady for gap in one.gaps_ms],
        "e2e": [_e2e(one) for one in steady],
    }
    for name, values in latencies.items():
        for figure in percentiles(name, values, requests=len(steady)):
            figures[figure.name] = figure
        tell(f"{name}_mean", fmean(values) if values else None, "ms", len(values))
    took = max(seconds, max((one.ended for one in records), default=0.0))
    tell("requests", len(records), "")
    tell("failed", len(records) - len(answered), "")
    tell("offered_rate", len(records) / seconds if seconds else None, "requests/s")
    tell("request_rate", len(answered) / took if records else None, "requests/s")
    tell("output_rate", _output_tokens(answered) / took if records else None, "tokens/s")
    tell("input_rate", sum(one.input_tokens or 0 for one in answered) / max(took, 1e-9), "tokens/s")
    tell("goodput", len(good) / max(seconds, 1e-9), "requests/s")
    tell("good_share", len(good) / len(records) if records else None, "")
    if price_per_hour is not None and (good_tokens := _output_tokens(good)):
        price = price_per_hour * took / 3600 / good_tokens * 1e6
        tell("price_per_million_tokens", price, "per million tokens")
    late = sorted((one.sent - one.scheduled) * 1000 for one in records)
    lateness = late[math.ceil(0.99 * len(late)) - 1] if late else 0.0
    tell("lateness_p99", lateness, "ms", len(late))
    growth, certainty, mean = _in_flight(records, seconds)
    tell("in_flight", mean, "")
    counted = [one for one in answered if one.output_tokens is not None]
    asked = sum(one.asked_input for one in answered if one.input_tokens is not None)
    return Summary(
        window=window.window,
        rate=window.rate,
        figures=figures,
        good_share=len(good) / len(records) if records else 0.0,
        good=len(good),
        counted=len(steady),
        errors=dict(Counter(one.error for one in records if one.error)),
        cut=cut,
        lateness_p99_ms=lateness,
        send_share=_send_share(records),
        in_flight_slope=growth,
        in_flight_t=certainty,
        short_outputs=_share(one.output_tokens != one.asked_output for one in counted),
        uncounted=_share(one.output_tokens is None for one in answered),
        input_ratio=sum(one.input_tokens or 0 for one in answered) / asked if asked else None,
        client_cpu=window.client_cpu,
        prefix_hits=window.prefix_hits,
        restarts=window.restarts,
    )


def ttft(record: RequestRecord) -> float | None:
    """Milliseconds from the scheduled time to the first token that is not empty."""
    return None if record.first is None else (record.first - record.scheduled) * 1000


def tpot(record: RequestRecord) -> float | None:
    """Milliseconds per token after the first chunk, by the server's count of tokens.

    That is (last - first) / (n - 1) where each chunk has one token; else the tokens of the first chunk are
    left out, as many as the server says, or as chunks have on average.
    """
    tokens = record.output_tokens
    if record.first is None or record.last is None or not tokens or record.chunks < 2:
        return None
    first = record.first_tokens or tokens / record.chunks
    return (record.last - record.first) * 1000 / (tokens - first) if tokens > first else None


def is_within(record: RequestRecord, targets: LatencyTargets) -> bool:
    """Whether it was answered within every target; failures never are."""
    if not record.is_good:
        return False
    told = ((ttft(record), targets.ttft_ms), (tpot(record), targets.tpot_ms), (_e2e(record), targets.e2e_ms))
    return all(limit is None or value is None or value <= limit for value, limit in told)


def percentiles(name: str, values: Sequence[float], *, requests: int) -> list[WindowFigure]:
    """Return the percentiles whose sample floor is reached, with the interval of their order statistics."""
    ordered = sorted(values)
    found = []
    for percent, floor in SAMPLE_FLOORS.items():
        if not ordered or requests < floor:
            continue
        count, share = len(ordered), percent / 100
        spread = 1.96 * math.sqrt(count * share * (1 - share))
        low, middle, high = (
            ordered[min(count, max(1, math.ceil(place))) - 1]
            for place in (count * share - spread, count * share, count * share + spread + 1)
        )
        found.append(WindowFigure(f"{name}_p{percent}", "ms", middle, low, high, count))
    return found


def _e2e(record: RequestRecord) -> float:
    return (record.ended - record.scheduled) * 1000


def _seconds(window: WindowRecord) -> float:
    """The time over which the requests were to come; of a closed loop, in which they did."""
    return window.seconds or max((one.ended for one in window.requests), default=0.0)


def _send_share(records: Sequence[RequestRecord]) -> float:
    if len(records) < 2:
        return 1.0
    planned = records[-1].scheduled - records[0].scheduled
    sent = max(one.sent for one in records) - records[0].scheduled
    return min(1.0, planned / sent) if planned > 0 and sent > 0 else 1.0


def _in_flight(records: Sequence[RequestRecord], seconds: float) -> tuple[float, float, float]:
    """Growth over the window as a share of the mean, its t-value, and the mean, of requests in flight.

    Looked at 20 times over the middle and end of the window: it fills at the beginning.
    """
    if not records or seconds <= 0:
        return 0.0, 0.0, 0.0
    begins = sorted(one.scheduled for one in records)
    ends = sorted(one.ended for one in records)
    moments = [seconds * (0.25 + 0.75 * place / 19) for place in range(20)]
    points = [(at, float(bisect.bisect_right(begins, at) - bisect.bisect_right(ends, at))) for at in moments]
    mean = fmean(count for _, count in points)
    growth, certainty = statistics.slope(points)
    return (growth * 0.75 * seconds / mean if mean else 0.0), certainty, mean


def _output_tokens(records: Iterable[RequestRecord]) -> int:
    return sum(one.output_tokens or 0 for one in records)


def _share(found: Iterable[bool]) -> float:
    told = list(found)
    return sum(told) / len(told) if told else 0.0
