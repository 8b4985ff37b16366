"""A small HTTP/1.1 client that keeps its connection and tells the truth about every answer."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LoadAnswer:
    status: int
    headers: Mapping[str, str]
    body: bytes
    sent_at: float
    """`time.perf_counter()` when the request was sent."""
    first_byte_at: float
    ended_at: float

    @property
    def milliseconds(self) -> float:
        return (self.ended_at - self.sent_at) * 1000

    @property
    def version(self) -> str:
        return self.headers.get("x-slipway-version", "")


class LoadClient:
    """One connection, one request at a time. Raises OSError or EOFError when an answer is not whole."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def get(self, path: str, headers: Mapping[str, str] | None = None) -> LoadAnswer:
        return await self._ask("GET", path, headers or {}, b"")

    async def post(self, path: str, body: bytes) -> LoadAnswer:
        told = {"content-type": "application/json", "content-length": str(len(body))}
        return await self._ask("POST", path, told, body)

    async def _ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> LoadAnswer:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        try:
            sent_at = time.perf_counter()
            writer.write(f"{method} {path} HTTP/1.1\r\nhost: load\r\n{fields}\r\n".encode() + body)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            first_byte_at = time.perf_counter()
            got = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])
            }
            if got.get("transfer-encoding") == "chunked":
                said = await self._chunks(reader)
            else:
                said = await reader.readexactly(int(got.get("content-length", 0)))
        except BaseException:
            self.close()
            raise
        if got.get("connection") == "close":
            self.close()
        return LoadAnswer(int(head[0].split()[1]), got, said, sent_at, first_byte_at, time.perf_counter())

    async def _chunks(self, reader: asyncio.StreamReader) -> bytes:
        parts = []
        while size := int(await reader.readuntil(b"\r\n"), 16):
            parts.append(await reader.readexactly(size))
            await reader.readexactly(2)
        await reader.readexactly(2)
        return b"".join(parts)

    def close(self) -> None:
        if self._streams:
            self._streams[1].close()
            self._streams = None


@dataclass(slots=True)
class LoopingClients:
    """Clients that send one request after the other until told to stop."""

    port: int
    answers: list[tuple[str, LoadAnswer]] = field(default_factory=list)
    """(path, answer) in the order in which they ended."""
    failures: list[str] = field(default_factory=list)
    """Answers of 500 and above, and answers that were not whole, in words."""
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def add(
        self, path: str, *, clients: int, pause_ms: float = 0, headers: Mapping[str, str] | None = None
    ) -> None:
        self._tasks += [
            asyncio.create_task(self._run(path, pause_ms / 1000, dict(headers or {}))) for _ in range(clients)
        ]

    async def finish(self) -> None:
        """Let the requests under way end."""
        self._stop.set()
        await asyncio.gather(*self._tasks)

    async def _run(self, path: str, pause: float, headers: dict[str, str]) -> None:
        client = LoadClient(self.port)
        while not self._stop.is_set():
            try:
                answer = await client.get(path, headers)
            except (OSError, EOFError, ValueError) as error:
                self.failures.append(f"{path}: {error!r}")
                await asyncio.sleep(0.01)
                continue
            self.answers.append((path, answer))
            if answer.status >= 500:
                self.failures.append(f"{path}: {answer.status} {answer.body[:200]!r}")
            await asyncio.sleep(pause)
        client.close()
