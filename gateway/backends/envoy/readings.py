"""Envoy's numbers as counts per target. Pure."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.backends.base import TargetCounts
from gateway.backends.envoy.listener import STATS_PREFIX
from gateway.backends.envoy.routes import forced
from gateway.latency import BOUNDS_MS, Histogram


def pattern(route: str, targets: Sequence[str]) -> str:
    """Regular expression of the numbers that `counts_of` needs."""
    names = "|".join(map(re.escape, targets))
    routes = "|".join(map(re.escape, (route, forced(route))))
    return rf"^{STATS_PREFIX}\.[a-z_]+\.target\.({names})\.route\.({routes})$"


def counts_of(
    route: str, targets: Sequence[str], numbers: Mapping[str, Any], *, epoch: str
) -> dict[str, TargetCounts]:
    histograms = {entry["name"]: entry["buckets"] for entry in numbers.get("histograms", ())}

    def counted(name: str, target: str, route_name: str) -> int:
        return int(numbers.get(_key(name, target, route_name), 0))

    found = {}
    for target in targets:
        routed, ended, abandoned = (counted(name, target, route) for name in ("routed", "ended", "abandoned"))
        side = forced(route)
        forced_ended = counted("ended", target, side)
        # Arrivals and ends are read one after the other while requests come and go.
        in_flight = routed + counted("routed", target, side) - ended - forced_ended
        found[target] = TargetCounts(
            epoch=epoch,
            routed=routed,
            requests=ended - abandoned,
            errors=counted("errors", target, route),
            abandoned=abandoned,
            forced_requests=forced_ended - counted("abandoned", target, side),
            forced_errors=counted("errors", target, side),
            latency_ms=_histogram(histograms.get(_key("latency_us", target, route))),
            first_byte_ms=_histogram(histograms.get(_key("first_byte_us", target, route))),
            in_flight=max(in_flight, 0),
        )
    return found


def _key(name: str, target: str, route: str) -> str:
    return f"{STATS_PREFIX}.{name}.target.{target}.route.{route}"


def _histogram(buckets: Sequence[Mapping[str, Any]] | None) -> Histogram:
    counts = {float(entry["upper_bound"]): int(entry["cumulative"]) for entry in buckets or ()}
    finite = tuple((bound, counts.get(float(round(bound * 1000)), 0)) for bound in BOUNDS_MS)
    return (*finite, (math.inf, max(counts.values(), default=0)))
