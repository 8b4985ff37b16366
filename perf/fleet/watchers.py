"""Pages that follow the fleet over websockets, as browsers do, and clients that open one and never read."""

import asyncio
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import websockets

from perf.fleet.reports import WARM_UP_SECONDS, reporting
from perf.fleet.served import PROJECT, ServedFleet, served_fleet
from perf.required import RequiredFigure, at_most

MACHINES = 200
WORKERS_OF_A_MACHINE = 8
FEW, MANY = 50, 500
STALLED = 50
PAGES_OF_A_PROCESS = 125
RAMP_SECONDS = 0.04
"""Between two pages of a process that open: they are to be there, not to arrive, when it counts."""
MOST_CPU = 0.25
MOST_TIMES_DELAY = 2.0
MOST_MEGABYTES = 10
STALLED_SECONDS = 25
"""Less than after which the server gives a stalled client up."""
SENT_AT = re.compile(rb'queue_depth":(\d{13})')
"""Milliseconds since 1970: `perf.fleet.reports` puts them where a page shows them."""


@dataclass(frozen=True, slots=True)
class WatchedSeconds:
    """A time in which pages watched."""

    cpu: float
    """CPU seconds per second of the web process."""
    delays: Sequence[float]
    """Seconds from a worker's report to each page, ascending."""
    frames: float
    """Per page and second."""
    bytes_per_frame: float

    @property
    def p99(self) -> float:
        return self.delays[int(0.99 * len(self.delays))]


def figures(seconds: float) -> Iterator[RequiredFigure]:
    """Yield what pages cost the web process, how late they are, and the memory that stalled clients take."""
    with (
        served_fleet(machines=MACHINES, workers_per_machine=WORKERS_OF_A_MACHINE) as fleet,
        reporting(fleet, workers_per_machine=WORKERS_OF_A_MACHINE),
    ):
        time.sleep(WARM_UP_SECONDS)
        before, began = fleet.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        alone = (fleet.cpu_seconds() - before) / (time.monotonic() - began)
        few, many = (_watched(fleet, pages, seconds) for pages in (FEW, MANY))
        megabytes = _stalled_bytes(fleet) / 1e6
    whole = f"{MACHINES} machines of {WORKERS_OF_A_MACHINE} workers"
    yield RequiredFigure(f"{whole}, no pages: CPU s per second", f"{alone:.3f}")
    for pages, found in ((FEW, few), (MANY, many)):
        yield RequiredFigure(f"{pages} pages: p99 from report to page", f"{found.p99:.2f} s")
        yield RequiredFigure("  median", f"{found.delays[len(found.delays) // 2]:.2f} s")
        yield RequiredFigure("  frames per page and second", f"{found.frames:.2f}")
        yield RequiredFigure("  size of a frame, without compression", f"{found.bytes_per_frame:,.0f} bytes")
    yield at_most(f"{MANY} pages: p99, times that of {FEW}", many.p99 / few.p99, MOST_TIMES_DELAY)
    yield at_most("  CPU s per second, reports included", many.cpu, MOST_CPU)
    each = (many.cpu - alone) / (many.frames * MANY)
    yield RequiredFigure("  CPU us per frame and page", f"{each * 1e6:.0f}")
    yield at_most(f"{STALLED} stalled clients: MB", megabytes, MOST_MEGABYTES)


def _watched(fleet: ServedFleet, pages: int, seconds: float) -> WatchedSeconds:
    counts = [min(PAGES_OF_A_PROCESS, pages - start) for start in range(0, pages, PAGES_OF_A_PROCESS)]
    warm_up = WARM_UP_SECONDS + max(counts) * RAMP_SECONDS
    command = [sys.executable, "-m", __name__, str(fleet.port), fleet.reader]
    processes = [
        subprocess.Popen(
            [*command, str(count), str(warm_up), str(seconds)],
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for count in counts
    ]
    time.sleep(warm_up)
    before, began = fleet.cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    cpu = (fleet.cpu_seconds() - before) / (time.monotonic() - began)
    delays: list[float] = []
    frames = size = 0
    for process in processes:
        output, _ = process.communicate(timeout=120)
        own_delays, own_frames, own_size = json.loads(output)
        delays += own_delays
        frames += own_frames
        size += own_size
    return WatchedSeconds(cpu, sorted(delays), frames / pages / seconds, size / frames)


class WatchingPages:
    """Many pages of one process, and what came to them."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, float]] = []
        """Number, seconds since 1970 when it came."""
        self.sent_at: dict[int, list[float]] = {}
        """When the reports in a frame were sent, by its number."""
        self.size = 0

    async def watch(self, port: int, token: str, *, wait: float) -> None:
        await asyncio.sleep(wait)
        headers = {"Authorization": f"Bearer {token}"}
        url = f"ws://127.0.0.1:{port}/ws/fleet/"
        options: dict[str, Any] = {"additional_headers": headers, "open_timeout": 60, "max_size": 2**24}
        async with websockets.connect(url, **options) as page:
            while True:
                content = await page.recv(decode=False)
                came = time.time()
                # Parsing a frame on each of many pages would measure this program, not the server.
                if b'"delta"' not in content[:20]:
                    continue
                number = int(content[:200].split(b'"seq":', 1)[1].split(b",", 1)[0])
                if number not in self.sent_at:
                    self.sent_at[number] = [int(one) / 1000 for one in SENT_AT.findall(content)]
                self.frames.append((number, came))
                self.size += len(content)


async def _watch_all(port: int, token: str, count: int, warm_up: float, seconds: float) -> None:
    pages = WatchingPages()
    async with asyncio.TaskGroup() as tasks:
        watching = [
            tasks.create_task(pages.watch(port, token, wait=number * RAMP_SECONDS)) for number in range(count)
        ]
        await asyncio.sleep(warm_up)
        pages.frames.clear()
        pages.size = 0
        await asyncio.sleep(seconds)
        frames, size = list(pages.frames), pages.size
        for task in watching:
            task.cancel()
    delays = [round(came - at, 3) for number, came in frames for at in pages.sent_at[number]]
    print(json.dumps([delays, len(frames), size]))


def _stalled_bytes(fleet: ServedFleet) -> int:
    """Return by how much memory grows at most while clients that never read hold their sockets."""
    before = fleet.memory_bytes()
    clients = [_stall(fleet) for _ in range(STALLED)]
    most = before
    until = time.monotonic() + STALLED_SECONDS
    while time.monotonic() < until:
        time.sleep(0.5)
        most = max(most, fleet.memory_bytes())
    for client in clients:
        client.close()
    return most - before


def _stall(fleet: ServedFleet) -> socket.socket:
    """Open a page that never reads, with hardly any room in the kernel."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", fleet.port))
    client.sendall(
        b"GET /ws/fleet/ HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        b"Authorization: Bearer " + fleet.reader.encode() + b"\r\n\r\n"
    )
    return client


if __name__ == "__main__":
    port, token, *numbers = sys.argv[1:]
    asyncio.run(_watch_all(int(port), token, int(numbers[0]), float(numbers[1]), float(numbers[2])))
