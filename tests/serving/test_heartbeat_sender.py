"""Heartbeats reach whoever listens, and nobody's absence disturbs the worker."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import h11
import pytest

from serving.heartbeat_sender import LONGEST_PAUSE_SECONDS, HeartbeatSender
from serving.http_client import HttpConnection, HttpError, Url
from serving.protocol import Heartbeat, decode_heartbeat
from tests.patience import cancelled
from tests.serving.test_protocol import BEAT


class Listener:
    """An HTTP server that keeps what it is told."""

    def __init__(self) -> None:
        self.status = 202
        self.heard: list[Heartbeat] = []
        self.tokens: list[str] = []
        self.times: list[float] = []
        self.connections = 0
        self.silent = False
        self.port = 0

    @asynccontextmanager
    async def listening(self, port: int = 0) -> AsyncIterator["Listener"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/heartbeats/"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        http = h11.Connection(h11.SERVER)
        body = b""
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                data = await reader.read(65_536)
                http.receive_data(data)
            elif isinstance(event, h11.Request):
                assert event.target == b"/heartbeats/"
                self.tokens.append(dict(event.headers)[b"authorization"].decode())
                body = b""
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                if self.silent:
                    await asyncio.sleep(30)
                self.heard.append(decode_heartbeat(body))
                self.times.append(time.monotonic())
                head = h11.Response(status_code=self.status, headers=[("content-length", "2")])
                for part in (head, h11.Data(data=b"{}"), h11.EndOfMessage()):
                    writer.write(http.send(part) or b"")
                await writer.drain()
                http.start_next_cycle()
            else:
                writer.close()
                return

    async def until_heard(self, count: int, *, seconds: float = 60.0) -> None:
        async with asyncio.timeout(seconds):
            while len(self.heard) < count:
                await asyncio.sleep(0.01)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("s3cret\n")
    return path


@asynccontextmanager
async def sending(sender: HeartbeatSender) -> AsyncIterator[None]:
    task = asyncio.create_task(sender.run())
    try:
        yield
    finally:
        await cancelled(task)


async def test_a_heartbeat_carries_the_token_and_what_was_composed(token_file: Path) -> None:
    async with Listener().listening() as listener:
        assert await HeartbeatSender(listener.url, token_file=token_file, compose=BEAT.encode).beat()
        assert listener.heard == [BEAT]
        assert listener.tokens == ["Bearer s3cret"]


async def test_heartbeats_come_at_their_pace_over_one_connection(token_file: Path) -> None:
    beats = (replace(BEAT, pid=number) for number in range(1, 100))
    async with Listener().listening() as listener:
        sender = HeartbeatSender(
            listener.url, token_file=token_file, compose=lambda: next(beats).encode(), every=0.2
        )
        async with sending(sender):
            await listener.until_heard(4)
        pauses = [b - a for a, b in zip(listener.times, listener.times[1:], strict=False)]
        assert min(pauses) > 0.1
        assert [beat.pid for beat in listener.heard[:4]] == [1, 2, 3, 4]
        assert listener.connections == 1


async def test_a_changed_state_is_told_at_once(token_file: Path) -> None:
    async with Listener().listening() as listener:
        sender = HeartbeatSender(listener.url, token_file=token_file, compose=BEAT.encode, every=600.0)
        async with sending(sender):
            await listener.until_heard(1)
            sender.hurry()
            await listener.until_heard(2, seconds=60.0)


async def test_a_new_token_is_taken_from_the_file(token_file: Path) -> None:
    async with Listener().listening() as listener:
        sender = HeartbeatSender(listener.url, token_file=token_file, compose=BEAT.encode)
        await sender.beat()
        token_file.write_text("fresh")
        await sender.beat()
        assert listener.tokens == ["Bearer s3cret", "Bearer fresh"]


@pytest.mark.parametrize("status", [401, 500, 302])
async def test_a_refused_heartbeat_is_a_failure_and_no_exception(token_file: Path, status: int) -> None:
    async with Listener().listening() as listener:
        listener.status = status
        assert not await HeartbeatSender(listener.url, token_file=token_file, compose=BEAT.encode).beat()


async def test_a_missing_token_file_is_a_failure_and_no_exception(tmp_path: Path) -> None:
    async with Listener().listening() as listener:
        sender = HeartbeatSender(listener.url, token_file=tmp_path / "none", compose=BEAT.encode)
        assert not await sender.beat()


async def test_a_server_that_never_answers_is_given_up(
    token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.heartbeat_sender.ANSWER_WITHIN_SECONDS", 0.1)
    async with Listener().listening() as listener:
        listener.silent = True
        assert not await HeartbeatSender(listener.url, token_file=token_file, compose=BEAT.encode).beat()


async def test_while_one_of_several_webs_is_down_or_hangs_another_is_told(
    token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.heartbeat_sender.ANSWER_WITHIN_SECONDS", 1.0)
    beats = (replace(BEAT, pid=number) for number in range(1, 100))
    first, second = Listener(), Listener()
    async with second.listening():
        async with first.listening():
            urls = (first.url, second.url)
            sender = HeartbeatSender(*urls, token_file=token_file, compose=lambda: next(beats).encode())
            assert await sender.beat()
            first.silent = True
            assert await sender.beat()
            assert await sender.beat()
        assert [beat.pid for beat in first.heard] == [1]
        # The second was composed for who hung, and is not told twice.
        assert [beat.pid for beat in second.heard] == [3, 4]


async def test_a_server_that_comes_back_is_told_again(token_file: Path) -> None:
    listener = Listener()
    async with listener.listening():
        pass
    sender = HeartbeatSender(listener.url, token_file=token_file, compose=BEAT.encode, every=0.05)
    async with sending(sender):
        await asyncio.sleep(0.4)
        async with listener.listening(listener.port):
            await listener.until_heard(2, seconds=LONGEST_PAUSE_SECONDS + 60)


async def test_a_reused_connection_that_was_closed_meanwhile_is_opened_again(token_file: Path) -> None:
    listener = Listener()
    sender = HeartbeatSender("http://127.0.0.1:1/", token_file=token_file, compose=BEAT.encode)
    async with listener.listening():
        sender._urls[0] = Url.parse(listener.url)
        assert await sender.beat()
        connection = sender._connection
        assert connection is not None
        assert connection.reusable
        await connection.close()
        connection._reader.feed_eof()
        assert await sender.beat()
    assert listener.connections == 2


async def test_an_answer_that_breaks_off_is_told_apart_from_an_end() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = Url.parse(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x?y=1")
    connection = await HttpConnection.open(url)
    assert await connection.request("GET", url) == 200
    with pytest.raises(HttpError, match="broke off"):
        async for _ in connection.body():
            pass
    await connection.close()
    server.close()


@pytest.mark.parametrize("text", ["ftp://host/", "http://", "host:80", ""])
def test_what_is_no_url_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Url.parse(text)
