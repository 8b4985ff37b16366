"""Clients of the console that connect and then do not speak, with real sockets."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from websockets.asyncio.client import connect

from controlplane.connections import BoundedProtocol
from tests.patience import eventually

pytestmark = pytest.mark.process

LARGE = 32 * 2**20


class Hasty(BoundedProtocol):
    header_seconds = 1
    idle_seconds = 2


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Counts a body; `/stream` answers for longer than any limit, `/large` more than a socket holds."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})
        return
    read, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        read += len(message["body"])
        more = message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/stream":
        for _ in range(20):
            await send({"type": "http.response.body", "body": b".", "more_body": True})
            await asyncio.sleep(0.2)
    body = b"x" * LARGE if scope["path"] == "/large" else str(read).encode()
    await send({"type": "http.response.body", "body": body})


class Running:
    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        config = uvicorn.Config(application, http=Hasty, lifespan="off", log_level="critical")
        self.server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self._listener]})
        self._thread.start()

    def stop(self) -> None:
        self.server.should_exit = self.server.force_exit = True
        self._thread.join()
        self._listener.close()


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    one = Running()
    yield one
    one.stop()


OPENINGS = (
    b"",
    b"GET / HTT",
    b"GET / HTTP/1.1\r\nhost: half\r\nx-more: ",
    b"PUT / HTTP/1.1\r\nhost: half\r\ncontent-length: 1000000\r\n\r\n12",
    b"GET / HTTP/1.1\r\nhost: kept\r\n\r\nGET / HT",
)


async def said_until_closed(port: int, opening: bytes) -> bytes:
    """Return what the server sends before it closes; a half-sent opening goes on byte by byte."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(opening)

    async def drip() -> None:
        while opening.endswith((b"x-more: ", b"12")):
            await asyncio.sleep(0.2)
            writer.write(b"a")

    dripping = asyncio.create_task(drip())
    said = b""
    try:
        while part := await reader.read(65_536):
            said += part
    except ConnectionError:
        pass
    finally:
        dripping.cancel()
        writer.close()
    return said


async def slow_but_honest(port: int) -> bytes:
    """A body of 40,000 bytes in 4 s."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"PUT / HTTP/1.1\r\nhost: slow\r\nconnection: close\r\n")
    await asyncio.sleep(0.2)
    writer.write(b"content-length: 40000\r\n\r\n")
    for _ in range(20):
        await asyncio.sleep(0.2)
        writer.write(b"x" * 2000)
    answer = await reader.read()
    writer.close()
    return answer


async def test_half_open_connections_are_closed_while_slow_clients_are_served(running: Running) -> None:
    honest = asyncio.create_task(slow_but_honest(running.port))
    async with asyncio.timeout(30):
        said = await asyncio.gather(*(said_until_closed(running.port, OPENINGS[n % 5]) for n in range(50)))
    assert set(said[0::5]) == {b""}, "a connection opened in advance would take it for an answer"
    for number in (1, 2, 3):
        assert all(answer.startswith(b"HTTP/1.1 408 ") for answer in said[number::5])
    assert all(answer.count(b"HTTP/1.1 200 ") == answer.count(b"HTTP/1.1 408 ") == 1 for answer in said[4::5])
    assert (await honest).endswith(b"40000\r\n0\r\n\r\n")
    eventually(lambda: not running.server.server_state.connections)


async def test_an_answer_may_take_longer_than_any_limit(running: Running) -> None:
    answer = await said_until_closed(
        running.port, b"GET /stream HTTP/1.1\r\nhost: long\r\nconnection: close\r\n\r\n"
    )
    assert answer.count(b"\r\n.\r\n") == 20
    assert answer.endswith(b"0\r\n\r\n")


async def test_a_client_that_takes_nothing_of_its_answer_is_closed(running: Running) -> None:
    with socket.create_connection(("127.0.0.1", running.port)) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nhost: idle\r\n\r\n")
        await asyncio.to_thread(eventually, lambda: running.server.server_state.connections)
        await asyncio.to_thread(eventually, lambda: not running.server.server_state.connections)


async def test_a_websocket_may_be_silent(running: Running) -> None:
    async with connect(f"ws://127.0.0.1:{running.port}/") as page:
        began = time.monotonic()
        await asyncio.sleep(3)
        await page.send("still here")
        assert await page.recv() == "still here"
        assert time.monotonic() - began > Hasty.idle_seconds
