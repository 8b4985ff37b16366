"""Requests over plain sockets of asyncio: a connection for each that is in flight, kept for the next ones."""

import asyncio
import itertools
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from urllib.parse import SplitResult, urlsplit

from serving.protocol import CHOSEN_BY_HEADER

_LIMIT = 1024 * 1024
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class BadAnswer(Exception):
    """An HTTP status other than 200: `http 503`."""


class Connections:
    """Connections to each of the addresses in turn, as many as are needed at the same time."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = itertools.cycle([urlsplit(one) for one in addresses])
        self._idle: dict[str, list[Streams]] = defaultdict(list)

    async def post(self, path: str, body: bytes, *, token: str = "") -> AsyncIterator[bytes]:
        """The answer's body as it comes. Raises BadAnswer, OSError, EOFError."""
        address = next(self._addresses)
        authorization = f"Authorization: Bearer {token}\r\n" if token else ""
        head = (
            f"POST {address.path.rstrip('/')}{path} HTTP/1.1\r\nHost: {address.netloc}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            # No release judges a version by our requests.
            f"{CHOSEN_BY_HEADER}: client\r\n{authorization}\r\n"
        )
        streams, headers = await self._answered(address, head.encode() + body)
        reader, writer = streams
        try:
            status = int(headers[0].split(" ", 2)[1])
            fields = dict(line.lower().split(":", 1) for line in headers[1:] if ":" in line)
            if status != 200:
                raise BadAnswer(f"http {status}")
            if "chunked" in fields.get("transfer-encoding", ""):
                async for data in _chunks(reader):
                    yield data
            elif "content-length" in fields:
                yield await reader.readexactly(int(fields["content-length"]))
            else:
                while data := await reader.read(65_536):
                    yield data
                fields["connection"] = "close"
        except BaseException:
            writer.close()
            raise
        if "close" in fields.get("connection", ""):
            writer.close()
        else:
            self._idle[address.netloc].append(streams)

    async def close(self) -> None:
        for some in self._idle.values():
            for _, writer in some:
                writer.close()
        await asyncio.sleep(0)

    async def _answered(self, address: SplitResult, request: bytes) -> tuple[Streams, list[str]]:
        """A kept connection may have been closed by the server meanwhile: then a new one is taken, once."""
        while self._idle[address.netloc]:
            streams = self._idle[address.netloc].pop()
            try:
                return streams, await _asked(streams, request)
            except (ConnectionError, EOFError):
                streams[1].close()
        secure = ssl.create_default_context() if address.scheme == "https" else None
        port = address.port or (443 if secure else 80)
        streams = await asyncio.open_connection(address.hostname, port, ssl=secure, limit=_LIMIT)
        try:
            return streams, await _asked(streams, request)
        except BaseException:
            streams[1].close()
            raise


async def _asked(streams: Streams, request: bytes) -> list[str]:
    reader, writer = streams
    writer.write(request)
    # `100 Continue` and its like come before the answer.
    while (head := await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 1"):
        pass
    return head.decode("latin-1").split("\r\n")


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int((await reader.readline()).split(b";")[0] or b"0", 16):
        data = await reader.readexactly(size + 2)
        yield data[:-2]
    while (await reader.readline()).strip():
        pass
