"""What each side of a service answers at the moment, from readings of the gateway's counts. Pure."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gateway.traffic import TargetCounts, TargetTraffic, rates

RATE_SECONDS = 10.0
FIGURES_SECONDS = 60.0
"""A rate should follow a click; a percentile needs requests to stand on."""

STALE_SECONDS = 90.0
"""A kept reading that is older begins no window: its figures would not be those of the last minute."""

Reading = Mapping[str, TargetCounts]


@dataclass(frozen=True, slots=True)
class SideTraffic:
    """Traffic of one target over the last seconds. Latencies in seconds; None: nothing to tell it from."""

    rate: float | None = None
    """Requests answered per second, over RATE_SECONDS."""
    requests: int = 0
    """Answered, over FIGURES_SECONDS; so are the figures below."""
    error_share: float | None = None
    """0..1"""
    p50: float | None = None
    p95: float | None = None
    first_byte_p95: float | None = None
    """To the first byte of the answer: time to first token, where the worker streams."""
    in_flight: int | None = None


NOTHING = SideTraffic()


class TrafficWindow:
    """The readings of one route over the last FIGURES_SECONDS."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, Reading]] = deque()

    @property
    def is_empty(self) -> bool:
        return not self._readings

    @property
    def latest_at(self) -> float:
        """Return the time of the newest reading."""
        return self._readings[-1][0] if self._readings else float("-inf")

    def add(self, at: float, reading: Reading) -> None:
        """`at` in seconds, by a clock that only goes forward."""
        if self._readings and _is_reset(self._readings[-1][1], reading):
            self._readings.clear()
        self._readings.append((at, reading))
        # One that is a little older stays until there is one at the edge: a kept reading may begin a window.
        while self._readings[0][0] < at - FIGURES_SECONDS and (
            self._readings[1][0] <= at - FIGURES_SECONDS or self._readings[0][0] < at - STALE_SECONDS
        ):
            self._readings.popleft()

    def sides(self) -> dict[str, SideTraffic]:
        """Return sides by target name. All but what is in flight is None until a second reading has come."""
        if not self._readings:
            return {}
        at, latest = self._readings[-1]
        first_at, first = self._readings[0]
        if first_at >= at:
            return {name: SideTraffic(in_flight=counts.in_flight) for name, counts in latest.items()}
        index = next(i for i, (moment, _) in enumerate(self._readings) if moment >= at - RATE_SECONDS)
        # Over a second or two a rate is noise: so the first looks after a kept reading count from that one.
        if self._readings[index][0] > at - RATE_SECONDS / 2:
            index = max(index - 1, 0)
        lately_at, lately = self._readings[index]
        speeds = rates(lately, latest, at - lately_at)
        return {
            name: replace(side_of(figures), rate=speeds[name].requests_per_s, in_flight=figures.in_flight)
            for name, figures in rates(first, latest, at - first_at).items()
        }


def _is_reset(before: Reading, after: Reading) -> bool:
    """Whether some counter started again: what came before can no longer be subtracted."""
    return any(name in before and before[name].epoch != one.epoch for name, one in after.items())


def side_of(figures: TargetTraffic) -> SideTraffic:
    """Return the side over one stretch of time; what was in flight, nobody knows afterwards."""
    return SideTraffic(
        rate=figures.requests_per_s,
        requests=figures.requests,
        error_share=figures.error_share,
        p50=_seconds(figures.latency_ms.p50),
        p95=_seconds(figures.latency_ms.p95),
        first_byte_p95=_seconds(figures.first_byte_ms.p95),
    )


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
