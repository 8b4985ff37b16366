"""Who waits at a worker may still be sent to another one; who has begun may not."""

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from serving.begun import BEGUN, begin_of, tells_begin
from tests.patience import eventually
from tests.serving.workers import running, wait_until

BODY = b'{"prompt": "a b c d", "max_tokens": 4}'


def asking(port: int, *fields: str, version: str = "1.1") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    head = [f"POST /v1/completions HTTP/{version}", "host: worker", f"content-length: {len(BODY)}", *fields]
    client.sendall("\r\n".join([*head, "connection: close", "", ""]).encode() + BODY)
    return client


def all_of(client: socket.socket) -> bytes:
    with client:
        return b"".join(iter(lambda: client.recv(65_536), b""))


@pytest.mark.stack
def test_a_worker_says_that_it_has_begun_when_a_slot_is_taken_and_not_before(tmp_path: Path) -> None:
    pace = {"token_seconds": 0.5}
    with running(tmp_path / "log", slots=1, queue_limit=1, settings=pace) as worker:
        worker.until_ready()
        first = asking(worker.port)
        assert first.recv(len(BEGUN)) == BEGUN
        second = asking(worker.port)
        wait_until(lambda: worker.health()[1]["queue_depth"] == 1, what="the queue")
        second.setblocking(False)
        with pytest.raises(BlockingIOError):
            second.recv(1)
        second.settimeout(60)
        assert all_of(asking(worker.port)).startswith(b"HTTP/1.1 429 ")
        # One that waited at a worker which died finds room where a new one does not.
        retried = asking(worker.port, "x-envoy-attempt-count: 2")
        assert all_of(first).startswith(b"HTTP/1.1 200 ")
        for waiting in (second, retried):
            assert all_of(waiting).startswith(BEGUN + b"HTTP/1.1 200 ")
        assert all_of(asking(worker.port, version="1.0")).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("http", ["h11", "httptools"])
def test_it_is_said_past_every_http_implementation(http: Any) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        begin_of(scope)()
        await asyncio.sleep(0)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(tells_begin(application), http=http, lifespan="off", log_level="critical")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            eventually(lambda: server.started)
            answer = all_of(asking(listener.getsockname()[1]))
        finally:
            server.should_exit = True
            thread.join()
    assert answer.startswith(BEGUN + b"HTTP/1.1 204 ")
