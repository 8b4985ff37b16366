"""A closed loop of HTTP clients, and the CPU time of a server's processes."""

import asyncio
import os
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class MeasuredLoad:
    """The clients' figures. Latencies in seconds; `answers`: when each came, and its status."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    answers: list[tuple[float, int]] = field(default_factory=list)
    server_cpu_seconds: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds

    @property
    def statuses(self) -> Counter[int]:
        return Counter(status for _, status in self.answers)

    @property
    def per_cpu_second(self) -> float:
        return len(self.latencies) / self.server_cpu_seconds

    @property
    def figures(self) -> str:
        p50, p99 = self.milliseconds(0.5), self.milliseconds(0.99)
        return f"{self.rate:,.0f}/s, p50 {p50:.1f} ms, p99 {p99:.1f} ms"

    def milliseconds(self, share: float) -> float:
        ordered = sorted(self.latencies)
        return 1_000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class _LoopingConnection(asyncio.Protocol):
    """Asks again as soon as it is answered."""

    def __init__(self, request: bytes, load: MeasuredLoad) -> None:
        self._request, self._load = request, load
        self._unread = bytearray()
        self._sent_at = 0.0
        self.counts = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        self._sent_at = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while (head := self._unread.find(b"\r\n\r\n")) >= 0:
            status = int(self._unread[9:12])
            if status == 100:
                del self._unread[: head + 4]
                continue
            fields = self._unread[:head].lower()
            if (at := fields.find(b"content-length:")) >= 0:
                end = head + 4 + int(fields[at + 15 :].split(b"\r", 1)[0])
            elif b"chunked" in fields:
                last = self._unread.find(b"\r\n0\r\n\r\n", head)
                end = last + 7 if last >= 0 else len(self._unread) + 1
            else:
                end = head + 4
            if len(self._unread) < end:
                return
            del self._unread[:end]
            if self.counts:
                now = time.perf_counter()
                self._load.latencies.append(now - self._sent_at)
                self._load.answers.append((now, status))
            self._ask()


def request(path: str, body: bytes, **headers: str) -> bytes:
    fields = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n{fields}\r\n".encode() + body


async def measure(
    port: int, requests: list[bytes], *, seconds: float, pid: int, warm: float = 1.0
) -> MeasuredLoad:
    """Measure with one client for each of `requests`. `pid`: of the server's first process."""
    load = MeasuredLoad()
    loop = asyncio.get_running_loop()
    clients = [
        (await loop.create_connection(lambda one=one: _LoopingConnection(one, load), "127.0.0.1", port))[1]  # type: ignore[misc]
        for one in requests
    ]
    await asyncio.sleep(warm)
    before, began = cpu_seconds(pid), time.perf_counter()
    for client in clients:
        client.counts = True
    await asyncio.sleep(seconds)
    for client in clients:
        client.counts = False
    load.seconds = time.perf_counter() - began
    load.server_cpu_seconds = cpu_seconds(pid) - before
    for client in clients:
        client._transport.abort()
    return load


def tree(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            found += [int(child) for child in task.read_text().split()]
    return found


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of the process and all below it."""
    ticks = 0
    for one in tree(pid):
        try:
            after = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(after[11]) + int(after[12])
    return ticks / os.sysconf("SC_CLK_TCK")
