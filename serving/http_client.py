"""A small HTTP/1.1 client on asyncio, for heartbeats and for a child server on the same machine.

On h11, which uvicorn brings anyway, so that a worker needs no further package and no thread.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

import h11


class HttpError(Exception):
    """No answer: the server is not there, broke off, or speaks something else."""


@dataclass(frozen=True)
class Url:
    """The destination of a request. With `socket`, a path, it goes there instead of to host and port."""

    host: str
    port: int
    target: str
    secure: bool = False
    socket: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """`http://...`, `https://...` or `unix:/path/of/socket`. Raises ValueError for anything else."""
        if text.startswith("unix:/"):
            return cls("localhost", 0, "/", socket=text.removeprefix("unix:"))
        parts = urlsplit(text)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{text} is not an http, https or unix URL")
        secure = parts.scheme == "https"
        target = parts.path or "/"
        if parts.query:
            target += f"?{parts.query}"
        return cls(parts.hostname, parts.port or (443 if secure else 80), target, secure)

    @property
    def authority(self) -> str:
        if self.socket:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class HttpConnection:
    """One connection, one request at a time; reusable while `reusable` says so after a whole body."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.CLIENT)

    @classmethod
    async def open(cls, url: Url) -> Self:
        """Raises HttpError."""
        context = ssl.create_default_context() if url.secure else None
        try:
            if url.socket:
                return cls(*await asyncio.open_unix_connection(url.socket))
            return cls(*await asyncio.open_connection(url.host, url.port, ssl=context))
        except OSError as error:
            raise HttpError(f"{url.authority} does not answer: {error.strerror or error}") from None

    async def request(
        self, method: str, url: Url, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> int:
        """Sends a request and returns the status; `body()` then gives the answer. Raises HttpError."""
        fields = {"host": url.authority, **(headers or {})}
        if method != "GET":
            fields["content-length"] = str(len(body))
        head = h11.Request(method=method, target=url.target, headers=list(fields.items()))
        data = b"".join(
            part or b""
            for part in (
                self._http.send(head),
                self._http.send(h11.Data(data=body)),
                self._http.send(h11.EndOfMessage()),
            )
        )
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise HttpError(f"{url.authority} broke off: {error.strerror or error}") from None
        while not isinstance(event := await self._event(), h11.Response):
            if not isinstance(event, h11.InformationalResponse):
                raise HttpError(f"{url.authority} broke off before it answered")
        return event.status_code

    async def body(self) -> AsyncGenerator[bytes, None]:
        """The parts of the answer as they come. Raises HttpError when it breaks off."""
        while True:
            event = await self._event()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
                    self._http.start_next_cycle()
                return
            else:
                raise HttpError("the answer broke off")

    @property
    def reusable(self) -> bool:
        return self._http.our_state is h11.IDLE and not self._reader.at_eof()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _event(self) -> "h11.Event | type[h11.PAUSED]":
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(65_536))
        except (h11.RemoteProtocolError, OSError) as error:
            raise HttpError(f"the answer broke off: {error}") from None
        return event  # type: ignore[return-value]
