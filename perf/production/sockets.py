"""Browsers that follow a release: sockets that get a frame a second each."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import websockets

from controlplane.environment import PROJECT
from perf.production.lists import cpu_of
from tests.production.site import Host, Role, Site

PER_PROCESS = 125
RAMP_SECONDS = 0.04
"""Between two sockets of a process that open: they are to be there, not to arrive, when it counts."""
MAKE = """
from types import SimpleNamespace
from perf.releases_in_motion import make_rows
from releases.models import Release
if not Release.objects.exists():
    make_rows(1, SimpleNamespace(port=1), SimpleNamespace(port=2))
assert Release.objects.get().in_motion
"""
Page = tuple[bool, list[float]]
"""(stayed to the end, seconds since 1970 when its frames came)."""


@dataclass(frozen=True, slots=True)
class SocketLoad:
    """Figures of all sockets together, while all were there."""

    count: int
    seconds: float
    frames: int
    errors: int
    connections: int
    cpu_seconds: float

    @property
    def microseconds(self) -> float:
        return self.cpu_seconds / max(self.frames, 1) * 1e6

    @property
    def rate(self) -> float:
        """Frames a socket and second."""
        return self.frames / self.count / self.seconds


def make_release(host: Host) -> None:
    """Make a release that holds at its weights; no sweeper looks at it."""
    done = host.run("manage", "shell", "--no-imports", "-c", MAKE)
    assert done.returncode == 0, done.stderr


def measure(
    site: Site, hosts: Sequence[Host], webs: Sequence[Role], *, count: int, seconds: float
) -> SocketLoad:
    urls = [host.url.replace("http", "ws", 1) + "/ws/releases/1/" for host in hosts]
    counts = [min(PER_PROCESS, count - start) for start in range(0, count, PER_PROCESS)]
    warm_up = 5 + max(counts) * RAMP_SECONDS
    asked = [json.dumps([urls, hosts[0].token, each, seconds + warm_up + 2]) for each in counts]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", __name__, text], cwd=PROJECT, stdout=subprocess.PIPE, text=True
        )
        for text in asked
    ]
    time.sleep(warm_up)
    before, began, connections = cpu_of(webs), time.time(), 0
    while time.time() < began + seconds:
        with suppress(Exception):  # PostgreSQL may have no connection left for us
            connections = max(connections, site.connections())
        time.sleep(0.25)
    used, ended = cpu_of(webs) - before, time.time()
    pages: list[Page] = []
    for process in processes:
        output, _ = process.communicate(timeout=120)
        pages += json.loads(output)
    frames = [[at for at in page if began <= at <= ended] for _, page in pages]
    return SocketLoad(
        count=count,
        seconds=ended - began,
        frames=sum(map(len, frames)),
        errors=sum(not stayed or not page for (stayed, _), page in zip(pages, frames, strict=True)),
        connections=connections,
        cpu_seconds=used,
    )


async def follow(url: str, token: str, until: float) -> Page:
    frames: list[float] = []
    headers = {"Authorization": f"Bearer {token}"}
    try:
        async with websockets.connect(
            url, additional_headers=headers, compression=None, open_timeout=60, max_size=2**24
        ) as page:
            while (left := until - time.monotonic()) > 0:
                try:
                    await asyncio.wait_for(page.recv(), left)
                except TimeoutError:
                    break
                frames.append(time.time())
    except (OSError, websockets.WebSocketException):
        return False, frames
    return True, frames


async def follow_many(urls: Sequence[str], token: str, count: int, seconds: float) -> list[Page]:
    until = time.monotonic() + seconds

    async def one(number: int) -> Page:
        await asyncio.sleep(number * RAMP_SECONDS)
        return await follow(urls[number % len(urls)], token, until)

    return await asyncio.gather(*(one(number) for number in range(count)))


if __name__ == "__main__":
    json.dump(asyncio.run(follow_many(*json.loads(sys.argv[1]))), sys.stdout)
