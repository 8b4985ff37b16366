"""Reads servers once a second and says of each what a worker of ours would say of itself."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence

from serving.busy import BusyRate
from serving.engines.registry import ENGINES
from serving.http_client import HttpConnection, HttpError, Url
from serving.protocol import BUSY_WINDOW_SECONDS, Counters, Heartbeat, Latency
from serving.relay_protocol import ScrapeTarget
from serving.scraping.exposition import Histogram, MetricSamples
from serving.scraping.reading import Reading, own_names, read

log = logging.getLogger(__name__)

WITHIN_SECONDS = 2.0
AT_ONCE = 64
MAX_BYTES = 4_000_000
LATENCY_SECONDS = 60.0
COMPLAIN_EVERY_SECONDS = 60.0


class CannotRead(Exception):
    """The server did not answer with metrics of its kind."""


class Scraper:
    """A scraper that keeps what was read of each server before, so that counters become rates."""

    def __init__(self) -> None:
        self._followed: dict[str, Followed] = {}
        self._complained_at: dict[str, float] = {}

    async def read(self, targets: Sequence[ScrapeTarget]) -> list[Heartbeat]:
        """Read those that answer; whoever does not is silent, as a worker of ours would be."""
        names = {target.worker for target in targets}
        for gone in self._followed.keys() - names:
            del self._followed[gone]
        places = asyncio.Semaphore(AT_ONCE)

        async def one(target: ScrapeTarget) -> Heartbeat | None:
            async with places:
                try:
                    async with asyncio.timeout(WITHIN_SECONDS):
                        text = await fetched(target)
                    return self.note(target, text, now=time.time())
                except (CannotRead, HttpError, OSError, TimeoutError) as error:
                    self._complain(target, str(error) or f"no answer within {WITHIN_SECONDS:g} s")
                    return None

        found = await asyncio.gather(*map(one, targets))
        return [heartbeat for heartbeat in found if heartbeat is not None]

    def note(self, target: ScrapeTarget, text: str, *, now: float) -> Heartbeat:
        """Return what `text`, its metrics at `now` (seconds since 1970), says. Raises CannotRead."""
        samples = MetricSamples(text)
        names = own_names(target.names) if target.names else ENGINES[target.engine].metrics
        reading = read(samples, names) if names is not None else None
        if reading is None:
            raise CannotRead(f"its metrics are not those of {target.engine}")
        followed = self._followed.get(target.worker)
        if followed is None:
            followed = self._followed[target.worker] = Followed(target.slots)
        return followed.heartbeat(target, reading, now=now)

    def _complain(self, target: ScrapeTarget, reason: str) -> None:
        now = time.monotonic()
        if now - self._complained_at.get(target.worker, -COMPLAIN_EVERY_SECONDS) >= COMPLAIN_EVERY_SECONDS:
            self._complained_at[target.worker] = now
            log.warning("%s at %s:%d is not read: %s", target.worker, target.address, target.port, reason)


class Followed:
    """A server through time. A counter that falls means that it has begun anew."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._process = 0
        self._before: Reading | None = None
        self._started_at = 0.0
        self._busy = BusyRate(slots, now=0.0)
        self._works: deque[tuple[float, float]] = deque()
        self._past: deque[tuple[float, Histogram | None, Histogram | None]] = deque()

    def heartbeat(self, target: ScrapeTarget, reading: Reading, *, now: float) -> Heartbeat:
        if self._before is None or _began_anew(reading, self._before):
            self._begin(reading, now=now)
        self._before = reading
        running, busy = self._load(reading, now=now)
        self._past.append((now, reading.ttft, reading.tpot))
        while len(self._past) > 1 and self._past[1][0] <= now - LATENCY_SECONDS:
            self._past.popleft()
        _, ttft, tpot = self._past[0]
        return target.heartbeat(
            pid=self._process,
            busy=busy,
            in_flight=running,
            queue_depth=reading.waiting,
            counters=reading.counters,
            ttft=_latency(reading.ttft, ttft),
            tpot=_latency(reading.tpot, tpot),
            started_at=self._started_at,
            at=now,
        )

    def _begin(self, reading: Reading, *, now: float) -> None:
        self._process += 1
        self._started_at = reading.started_at or now
        self._busy = BusyRate(self._slots, now=now)
        self._works.clear()
        self._past.clear()

    def _load(self, reading: Reading, *, now: float) -> tuple[int, float]:
        """Requests at work, and the mean share of the slots over the last 10 s."""
        if reading.running is not None:
            self._busy.change(min(reading.running, self._slots), now=now)
            return reading.running, self._busy.share(now=now)
        self._works.append((now, reading.worked_seconds or 0.0))
        while len(self._works) > 2 and self._works[1][0] <= now - BUSY_WINDOW_SECONDS:
            self._works.popleft()
        since, worked = self._works[0]
        if now <= since:
            return 0, 0.0
        level = max(0.0, (reading.worked_seconds or 0.0) - worked) / (now - since)
        return round(level), min(1.0, level / self._slots)


def _began_anew(now: Reading, before: Reading) -> bool:
    if now.started_at is not None and before.started_at is not None:
        return now.started_at > before.started_at + 1.0
    return _sum(now.counters) < _sum(before.counters) or (now.worked_seconds or 0) < (
        before.worked_seconds or 0
    )


def _sum(counters: Counters) -> int:
    return counters.requests + counters.prompt_tokens + counters.completion_tokens


def _latency(now: Histogram | None, before: Histogram | None) -> Latency | None:
    """Return the latency of the last minute; None without requests in it."""
    if now is None:
        return None
    lately = now.since(before) if before is not None else now
    if lately.count < 1:
        return None
    p50, p95 = (round(lately.quantile(share) * 1_000, 3) for share in (0.50, 0.95))
    return Latency(p50_ms=p50, p95_ms=p95, count=round(lately.count))


async def fetched(target: ScrapeTarget) -> str:
    """Raises CannotRead, HttpError, OSError."""
    host = f"[{target.address}]" if ":" in target.address else target.address
    url = Url.parse(f"http://{host}:{target.port}{target.path}")
    connection = await HttpConnection.open(url)
    try:
        status = await connection.request("GET", url, headers={"accept": "text/plain"})
        content = b""
        async for part in connection.body():
            content += part
            if len(content) > MAX_BYTES:
                raise CannotRead(f"its metrics have more than {MAX_BYTES} bytes")
    finally:
        await connection.close()
    if status != 200:
        raise CannotRead(f"{target.path} answers {status}")
    return content.decode(errors="replace")
