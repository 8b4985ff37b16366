"""`python -m controlplane.sample.tide.traffic --url URL`: requests that come and go as a tide, and albums as
jobs, of which some always wait."""

import argparse
import asyncio
import math
import random
import sys
import time
from collections import Counter, deque
from collections.abc import Sequence
from itertools import islice

import httpx2

from controlplane.sample.traffic import until_orphaned

PERIOD_SECONDS = 240.0
JOBS_KEPT = 24
PICTURES = 10
TIMEOUT_SECONDS = 30.0
ANSWERS_KEPT = 10_000


class Tide:
    """Open load: a request is sent when it is due, whether or not others were answered."""

    def __init__(self, url: str, *, low: float, high: float, period: float) -> None:
        self._url, self._low, self._high, self._period = url, low, high, period
        self._began = time.monotonic()
        self._asking: set[asyncio.Task[None]] = set()
        self._jobs: set[str] = set()
        self.outcomes: Counter[str] = Counter()
        """Requests by `ok` or what went wrong."""
        self.seconds: deque[tuple[float, float]] = deque(maxlen=ANSWERS_KEPT)
        """When each of the last answers came, and how long it took."""
        self.jobs_done = 0

    def rate(self, at: float) -> float:
        """Requests a second, at so many seconds since the start; it begins with the ebb."""
        middle, swing = (self._high + self._low) / 2, (self._high - self._low) / 2
        return middle - swing * math.cos(2 * math.pi * at / self._period)

    async def run(self, client: httpx2.AsyncClient) -> None:
        jobs = asyncio.create_task(self._keep_jobs(client))
        try:
            while True:
                await asyncio.sleep(random.expovariate(self.rate(time.monotonic() - self._began)))
                task = asyncio.create_task(self._ask(client))
                self._asking.add(task)
                task.add_done_callback(self._asking.discard)
        finally:
            jobs.cancel()

    async def until_answered(self) -> None:
        """Wait for the requests in hand, after the last was sent."""
        await asyncio.gather(*self._asking)

    async def _ask(self, client: httpx2.AsyncClient) -> None:
        began = time.monotonic()
        try:
            answer = await client.post(f"{self._url}/rate", json={"seed": random.getrandbits(30)})
            outcome = "ok" if answer.status_code == 200 else f"status {answer.status_code}"
        except httpx2.HTTPError as error:
            outcome = type(error).__name__
        self.outcomes[outcome] += 1
        self.seconds.append((time.monotonic(), time.monotonic() - began))

    async def _keep_jobs(self, client: httpx2.AsyncClient) -> None:
        while True:
            try:
                await self._look_at_jobs(client)
            except httpx2.HTTPError as error:
                sys.stdout.write(f"jobs: {error}\n")
            await asyncio.sleep(1)

    async def _look_at_jobs(self, client: httpx2.AsyncClient) -> None:
        for address in sorted(self._jobs):
            answer = await client.get(address)
            if answer.status_code == 200 and answer.json()["state"] in ("queued", "running"):
                continue
            self._jobs.discard(address)
            self.jobs_done += 1
        while len(self._jobs) < JOBS_KEPT:
            seeds = [random.getrandbits(30) for _ in range(PICTURES)]
            answer = await client.post(f"{self._url}/albums", json={"seeds": seeds})
            if answer.status_code != 202:
                return
            self._jobs.add(str(httpx2.URL(self._url).join(answer.headers["location"])))


async def play(url: str, low: float, high: float, period: float, *, with_parent: bool) -> None:
    tide = Tide(url, low=low, high=high, period=period)
    async with httpx2.AsyncClient(timeout=TIMEOUT_SECONDS) as client:
        running = asyncio.create_task(tide.run(client))
        watch = asyncio.create_task(until_orphaned(running.cancel)) if with_parent else None
        while not running.done():
            await asyncio.sleep(10)
            lately = sorted(took for _, took in islice(reversed(tide.seconds), 200))
            p95 = lately[int(0.95 * len(lately))] if lately else 0.0
            sys.stdout.write(f"{dict(tide.outcomes)}, p95 {p95:.2f} s, {tide.jobs_done} jobs done\n")
            sys.stdout.flush()
        if watch is not None:
            watch.cancel()
    if not running.cancelled():
        running.result()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m controlplane.sample.tide.traffic", description=__doc__)
    parser.add_argument("--url", required=True, help="of the service behind its gateway")
    parser.add_argument("--low", type=float, default=3.0, help="requests a second at low tide")
    parser.add_argument("--high", type=float, default=24.0, help="and at high tide")
    parser.add_argument("--period", type=float, default=PERIOD_SECONDS, help="seconds from tide to tide")
    parser.add_argument(
        "--exit-with-parent", action="store_true", help="end when the starting process is gone"
    )
    options = parser.parse_args(arguments)
    asyncio.run(
        play(options.url, options.low, options.high, options.period, with_parent=options.exit_with_parent)
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
