"""The load of a benchmark as a service has had it: its lengths and rates, never its prompts. Pure."""

from collections.abc import Sequence
from typing import Any

from gateway.load_hours import RecordedLoad
from serving.protocol import LENGTH_BOUNDS

LEAST_REQUESTS = 20
"""Below, lengths say too little."""
WINDOW_SECONDS = 60
REQUESTS = (20, 200)
LEAST_RATE = REQUESTS[0] / WINDOW_SECONDS
"""Per second; below, requests in flight are kept instead, or a run would take too long."""


def scenario_of(load: RecordedLoad) -> dict[str, Any]:
    """Return the scenario of one worker in the service's busiest hour."""
    workers = max(load.workers, 1.0)
    rate = load.per_second / workers
    lengths = {"input": _lengths(load.prompts), "output": _lengths(load.answers)}
    if rate < LEAST_RATE:
        in_flight = max(1, round(load.in_flight / workers))
        return {
            "arrivals": "concurrency", "rates": [in_flight], "requests": max(REQUESTS[0], 5 * in_flight),
            "warm_up_requests": 4, **lengths,
        }  # fmt: skip
    least, most = REQUESTS
    return {
        "arrivals": "poisson", "rates": [round(rate, 3)],
        "requests": min(most, max(least, round(rate * WINDOW_SECONDS))), "warm_up_requests": 4, **lengths,
    }  # fmt: skip


def _lengths(counts: Sequence[int]) -> dict[str, Any]:
    bins = [[_middle(place), count] for place, count in enumerate(counts) if count]
    return {"kind": "histogram", "bins": bins}


def _middle(place: int) -> int:
    """Return the middle of the lengths of a bin."""
    if place >= len(LENGTH_BOUNDS):
        return LENGTH_BOUNDS[-1]
    below = LENGTH_BOUNDS[place - 1] if place else 0
    return (below + 1 + LENGTH_BOUNDS[place]) // 2
