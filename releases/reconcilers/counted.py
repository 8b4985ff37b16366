"""What a release keeps of the gateway's counts from one look to the next: just what the judge compares."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.latency import Histogram
from gateway.traffic import TargetCounts


@dataclass(frozen=True, slots=True)
class StoredCounts:
    """Counts of one target at the last look; `releases.judge.CountsLike`."""

    epoch: str
    requests: int
    errors: int
    latency_ms: Histogram
    """Only at the bound that tells slow answers, and at infinity."""


def packed(counts: Mapping[str, TargetCounts], *, slow_threshold_ms: float | None) -> dict[str, Any]:
    """Return it as JSON, which knows no infinity: the last bound of a histogram becomes null."""
    return {
        name: {
            "epoch": one.epoch,
            "requests": one.requests,
            "errors": one.errors,
            "latency_ms": [
                [bound if math.isfinite(bound) else None, count]
                for bound, count in one.latency_ms
                if bound == slow_threshold_ms or math.isinf(bound)
            ],
        }
        for name, one in counts.items()
    }


def unpacked(document: Mapping[str, Mapping[str, Any]]) -> dict[str, StoredCounts]:
    return {
        name: StoredCounts(one["epoch"], one["requests"], one["errors"], _histogram(one["latency_ms"]))
        for name, one in document.items()
    }


def _histogram(pairs: Sequence[Sequence[Any]]) -> Histogram:
    return tuple((math.inf if bound is None else float(bound), int(count)) for bound, count in pairs)
