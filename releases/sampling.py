"""The traffic of the services that somebody in this process watches, read once a second at most."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Lock

from django.utils.translation import gettext as _

from common import clock
from gateway import selectors as gateway
from gateway.errors import CountsPending, GatewayError, UnknownRoute
from gateway.traffic import CountsReading
from gateway.watching import watched
from releases.traffic import STALE_SECONDS, Reading, SideTraffic, TrafficWindow

GAP_SECONDS = 0.8
"""Who looks again sooner gets the same look: several pages of one service cost one question."""
SAME_SECONDS = 0.2
"""What another host has read no later than this after the reading before is that one, once more."""
KEEP_SECONDS = 15 * 60
FORGET_AFTER_SECONDS = 10 * 60


def _told(service: str) -> CountsReading:
    return watched(gateway.route(service))


def _kept(service: str) -> tuple[float, Reading] | None:
    """The reading that was kept last, and how many seconds old it is."""
    now = clock.now()
    found = gateway.last_reading(service, since=now - timedelta(seconds=STALE_SECONDS))
    return None if found is None else ((now - found[0]).total_seconds(), found[1])


@dataclass(frozen=True, slots=True)
class TrafficSample:
    """Traffic as seen at one moment."""

    at: float
    """Seconds since 1970."""
    sides: Mapping[str, SideTraffic]
    """By deployment."""
    problem: str = ""
    """Why there is nothing to see, in words; empty when there is."""
    told_by: str = ""
    """The host that has read it, where that is another one."""
    age_seconds: float = 0.0
    """How long ago that was."""


@dataclass(slots=True)
class _WatchedService:
    window: TrafficWindow = field(default_factory=TrafficWindow)
    looks: deque[TrafficSample] = field(default_factory=deque)
    read_at: float = -GAP_SECONDS
    lock: Lock = field(default_factory=Lock)


class Sampler:
    """Sampler of the services that a process watches.

    `read` tells a service's counts, or raises GatewayError; clocks are in seconds.

    `kept` gives a reading of before anybody watched, and its age: so the first look tells figures already.
    """

    def __init__(
        self,
        read: Callable[[str], CountsReading] = _told,
        *,
        kept: Callable[[str], tuple[float, Reading] | None] = _kept,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._read = read
        self._kept = kept
        self._clock = clock
        self._wall_clock = wall_clock
        self._watched: dict[str, _WatchedService] = {}
        self._lock = Lock()

    def look(self, service: str) -> TrafficSample:
        """Ask the gateway; as slow as that is. Never raises for what the gateway does."""
        with self._lock:
            self._forget_unwatched()
            watched = self._watched.setdefault(service, _WatchedService())
        with watched.lock:
            if watched.looks and self._clock() - watched.read_at < GAP_SECONDS:
                return watched.looks[-1]
            look = self._look(service, watched.window)
            watched.read_at = self._clock()
            watched.looks.append(look)
            while watched.looks[0].at < look.at - KEEP_SECONDS:
                watched.looks.popleft()
            return look

    def seen(self, service: str) -> Sequence[TrafficSample]:
        """The looks of the last minutes, without another one; the newest last."""
        watched = self._watched.get(service)
        return () if watched is None else tuple(watched.looks)

    def _look(self, service: str, window: TrafficWindow) -> TrafficSample:
        at = self._wall_clock()
        try:
            told = self._read(service)
        except UnknownRoute:
            return TrafficSample(at, {}, _("The gateway has no route to this service yet."))
        except CountsPending as error:
            return TrafficSample(at, {}, str(error))
        except GatewayError as error:
            return TrafficSample(at, {}, _("The gateway does not answer: %(error)s") % {"error": error})
        now = self._clock() - told.age_seconds
        if window.is_empty and (kept := self._kept(service)) is not None:
            age, before = kept
            window.add(now - age, before)
        if now > window.latest_at + SAME_SECONDS or not told.host:
            window.add(now, told.counts)
        return TrafficSample(at, window.sides(), told_by=told.host, age_seconds=told.age_seconds)

    def _forget_unwatched(self) -> None:
        limit = self._clock() - FORGET_AFTER_SECONDS
        for service in [name for name, one in self._watched.items() if 0 < one.read_at < limit]:
            del self._watched[service]


sampler = Sampler()
