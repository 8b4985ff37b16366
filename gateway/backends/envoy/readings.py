"""Envoy's numbers as counts per target. Pure."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gateway.backends.envoy.abilities import COUNTED_AS
from gateway.backends.envoy.listener import STATS_PREFIX
from gateway.backends.envoy.routes import forced
from gateway.client_access import ClientCounts, ClientReading
from gateway.latency import BOUNDS_MS, Histogram
from gateway.traffic import TargetCounts

Targets = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EnvoyReading:
    """Envoy's numbers of some routes at one moment."""

    at: datetime
    """When it was begun."""
    routes: Mapping[str, Targets]
    started: str
    """When the Envoy that was asked had started, as it writes it: ISO 8601."""
    numbers: Mapping[str, Any]
    """By name; histograms, if any, by theirs under `histograms`."""


JUDGED = "routed|turned_away|ended|abandoned|errors|broken|latency_us"
ALL = "[a-z_]+"


def pattern(routes: Mapping[str, Targets], names: str = ALL) -> str:
    """Regular expression of the numbers that `counts_of` needs for these routes."""
    parts = (
        rf"({_any(targets)})\.route\.({_any((route, forced(route), COUNTED_AS))})"
        for route, targets in routes.items()
    )
    return rf"^{STATS_PREFIX}\.({names})\.target\.({'|'.join(parts)})$"


def _any(names: Sequence[str]) -> str:
    return "|".join(map(re.escape, names))


def counts_of(route: str, reading: EnvoyReading) -> dict[str, TargetCounts]:
    numbers, histograms = reading.numbers, reading.numbers.get("histograms", {})

    def counted(name: str, target: str, *names: str) -> int:
        return sum(int(numbers.get(_key(name, target, one), 0)) for one in names)

    def histogram(name: str, target: str) -> Histogram:
        first, second = (_histogram(histograms.get(_key(name, target, one))) for one in chosen)
        return tuple((bound, one + two) for (bound, one), (_, two) in zip(first, second, strict=True))

    since = datetime.fromisoformat(reading.started)
    chosen, side = (route, COUNTED_AS), forced(route)
    found = {}
    for target in reading.routes[route]:
        routed, forced_ended = counted("routed", target, route), counted("ended", target, side)
        abandoned = counted("abandoned", target, *chosen)
        arrived = routed + counted("routed", target, side) - counted("turned_away", target, route, side)
        # Arrivals and ends are read one after the other while requests come and go.
        in_flight = arrived - counted("ended", target, route) - forced_ended
        found[target] = TargetCounts(
            epoch=reading.started,
            since=since,
            routed=routed,
            requests=counted("ended", target, *chosen) - abandoned,
            errors=counted("errors", target, *chosen),
            broken=counted("broken", target, *chosen),
            abandoned=abandoned,
            forced_requests=forced_ended - counted("abandoned", target, side),
            forced_errors=counted("errors", target, side),
            latency_ms=histogram("latency_us", target),
            first_byte_ms=histogram("first_byte_us", target),
            in_flight=max(in_flight, 0),
        )
    return found


_CLIENT = re.compile(rf"{STATS_PREFIX}\.(\w+)\.key\.(\w+)\.target\.(.+)")
CLIENTS = rf"^{STATS_PREFIX}\.[a-z_]+\.key\."


def clients_of(reading: EnvoyReading) -> ClientReading:
    """Counts by target and key."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for name, value in reading.numbers.items():
        if match := _CLIENT.fullmatch(name):
            found.setdefault((match[3], match[2]), {})[match[1].removeprefix("client_")] = int(value)
    return ClientReading(reading.started, {of: ClientCounts(**numbers) for of, numbers in found.items()})


def _key(name: str, target: str, route: str) -> str:
    return f"{STATS_PREFIX}.{name}.target.{target}.route.{route}"


_MICROSECONDS = tuple((bound, float(round(bound * 1000))) for bound in BOUNDS_MS)
_EMPTY: Histogram = (*((bound, 0) for bound in BOUNDS_MS), (math.inf, 0))


def _histogram(buckets: Sequence[Mapping[str, Any]] | None) -> Histogram:
    if not buckets or not (total := max(entry["cumulative"] for entry in buckets)):
        return _EMPTY
    counts = {entry["upper_bound"]: entry["cumulative"] for entry in buckets}
    return (*((bound, int(counts.get(key, 0))) for bound, key in _MICROSECONDS), (math.inf, int(total)))
