"""Clients of every kind: quick, slow, wrong, gone, ten thousand at once."""

import asyncio
import contextlib
import http.client
import json
import re
import resource
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from serving.runtime import http_server
from serving.runtime.errors import Problem
from serving.runtime.http_request import HttpRequest
from serving.runtime.http_server import HttpServer
from serving.worker import listen
from tests.serving.runtime.rig import BackgroundCall, service
from tests.serving.workers import RunningWorker, wait_until

WITHIN_SECONDS = 10.0


class Echo:
    """Answers with the body, or with what the path asks for. `held` wait until somebody answers them."""

    def __init__(self) -> None:
        self.held: list[HttpRequest] = []
        self.gone: list[str] = []
        self.pauses: list[bool] = []

    def identity(self) -> bytes:
        return b"x-echo: 1\r\n"

    def accept(self, request: HttpRequest) -> int:
        if request.path == "/nowhere":
            raise Problem(404, "Not found")
        return 1_000

    def handle(self, request: HttpRequest) -> None:
        request.on_gone = lambda: self.gone.append(request.path)
        request.on_pause = self.pauses.append
        if request.path == "/hold":
            self.held.append(request)
        elif request.path == "/injected":
            request.answer(200, "text/plain\r\nx-type: 1", b"", {"x-good": "1", "x-bad": "1\r\nx-worse: 1"})
        elif request.path == "/pieces":
            request.begin(200, "text/plain")
            request.piece(b"one")
            request.piece(b"two")
            request.end()
        else:
            request.answer(200, "text/plain", request.path.encode() + request.body)

    def refuse(self, request: HttpRequest, problem: Problem) -> None:
        request.answer_problem(problem)

    def left(self, request: HttpRequest) -> None:
        self.gone.append(request.path)


@asynccontextmanager
async def serving(application: Echo) -> AsyncIterator[int]:
    server = HttpServer(application, grace_seconds=2.0)
    listener = listen("127.0.0.1", 0)
    await server.start(listener)
    try:
        yield listener.getsockname()[1]
    finally:
        await server.stop()


async def said(port: int, *sent: bytes, pause: float = 0.05) -> bytes:
    """All that is answered until the server closes, or nothing more comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = b""
    try:
        for part in sent:
            writer.write(part)
            await asyncio.sleep(pause)
        with contextlib.suppress(TimeoutError):
            while part := await asyncio.wait_for(reader.read(65_536), 0.5):
                answer += part
    finally:
        writer.close()
    return answer


def statuses(answer: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


async def test_pipelined_requests_are_answered_in_their_order() -> None:
    application = Echo()
    async with serving(application) as port:
        sent = b"".join(b"GET /%s HTTP/1.1\r\n\r\n" % name for name in (b"hold", b"a", b"b"))
        asked = asyncio.create_task(said(port, sent))
        while not application.held:
            await asyncio.sleep(0.01)
        application.held[0].answer(200, "text/plain", b"/first")
        answer = await asked
    assert statuses(answer) == [200, 200, 200]
    assert answer.index(b"/first") < answer.index(b"/a") < answer.index(b"/b")


async def test_a_request_may_come_byte_by_byte_and_its_body_in_chunks() -> None:
    head = b"POST /x%20y?q HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with serving(Echo()) as port:
        answer = await said(
            port, *(bytes([one]) for one in head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"), pause=0
        )
    assert (statuses(answer), answer.endswith(b"/x yabcde")) == ([200], True)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"POST /a HTTP/1.1\r\ncontent-length: 1001\r\n\r\n" + bytes(1001), [413, 200]),
        (b"POST /a HTTP/1.1\r\ncontent-length: 900000\r\n\r\n" + bytes(900_000), [413]),
        (b"POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n7d1\r\n" + bytes(2001) + b"\r\n", [413]),
        (b"POST /nowhere HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc", [404, 200]),
        (b"POST /a HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\nabcde", [100, 200, 200]),
        (b"POST /a HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 1001\r\n\r\n", [413]),
        (b"GET /a HTTP/1.1\r\nx: " + b"y" * 70_000, [431]),
        (b"Hello\r\n\r\n", [400]),
        (b"GET /a HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", [400]),
        (b"HEAD /a HTTP/1.1\r\n\r\n", [200, 200]),
        (b"GET /a HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n", [200, 200]),
        (b"GET /a HTTP/1.0\r\n\r\n", [200]),
    ],
)  # fmt: skip
async def test_a_connection_goes_on_after_a_request_or_says_why_it_does_not(
    sent: bytes, expected: list[int]
) -> None:
    async with serving(Echo()) as port:
        answer = await said(port, sent, b"GET /next HTTP/1.1\r\n\r\n")
    assert statuses(answer) == expected
    assert answer.endswith(b"/next") == (expected[-1] == 200 and len(expected) > 1)


async def test_headers_of_an_answer_cannot_break_out() -> None:
    async with serving(Echo()) as port:
        answer = await said(port, b"GET /injected HTTP/1.1\r\n\r\n")
    assert b"x-good: 1\r\n" in answer
    assert not {b"x-bad", b"x-worse", b"x-type"} & {line.partition(b":")[0] for line in answer.split(b"\r\n")}


async def test_pieces_are_chunks_and_for_an_old_client_the_rest_of_the_connection() -> None:
    async with serving(Echo()) as port:
        new = await said(port, b"GET /pieces HTTP/1.1\r\n\r\n")
        old = await said(port, b"GET /pieces HTTP/1.0\r\n\r\n")
    assert new.endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
    assert old.endswith(b"\r\n\r\nonetwo")
    assert b"chunked" not in old


async def test_clients_that_leave_are_told_to_the_application() -> None:
    application = Echo()
    async with serving(application) as port:
        for sent in (b"GET /hold HTTP/1.1\r\n\r\n", b"POST /half HTTP/1.1\r\ncontent-length: 9\r\n\r\nabc"):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            await asyncio.sleep(0.05)
            writer.close()
        async with asyncio.timeout(WITHIN_SECONDS):
            while len(application.gone) < 2:
                await asyncio.sleep(0.01)
        application.held[0].answer(200, "text/plain", b"to nobody")
    assert sorted(application.gone) == ["/half", "/hold"]


async def test_who_sends_too_slowly_is_refused_and_who_takes_nothing_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, seconds in (("READ_WITHIN", 0.3), ("WRITE_WITHIN", 0.6), ("LINGER", 0.3), ("LOOK_EVERY", 0.1)):
        monkeypatch.setattr(http_server, f"{name}_SECONDS", seconds)
    application = Echo()
    async with serving(application) as port:
        trickle = [b"GET /a HTTP/1.1\r\n", *(b"x: y\r\n" for _ in range(20))]
        assert statuses(await said(port, *trickle)) == [408]
        assert statuses(await said(port, b"POST /a HTTP/1.1\r\ncontent-length: 9\r\n\r\nabc")) == [408]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1_000)
        writer.write(b"GET /hold HTTP/1.1\r\n\r\n")
        while not application.held:
            await asyncio.sleep(0.01)
        held = application.held[0]
        held.begin(200, "text/plain")
        held.piece(bytes(32 << 20))
        assert application.pauses == [True]
        async with asyncio.timeout(WITHIN_SECONDS):
            while not application.gone:
                await asyncio.sleep(0.05)
        taken = 0
        while part := await reader.read(1 << 20):
            taken += len(part)
        assert taken < 32 << 20
        writer.close()


APP = """
import time
from slipway import serve

app = serve.App(processes=2, timeout_seconds=60)

@app.post("/wait")
def wait(request):
    time.sleep(request.seconds)
    return "done"

@app.stream("/flood", media_type="application/octet-stream")
def flood(request):
    for _ in range(request.pieces):
        yield bytes(1 << 20)
"""


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    with service(tmp_path_factory.mktemp("http"), APP) as running:
        yield running


def asked_in_vain(worker: RunningWorker, path: str, **body: int) -> socket.socket:
    """A connection that has asked and reads nothing."""
    connection = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=30)
    connection.request("POST", path, json.dumps(body))
    return connection.sock


@pytest.mark.process
def test_a_slow_client_keeps_its_process_waiting_and_nothing_in_memory(worker: RunningWorker) -> None:
    status = Path(f"/proc/{worker.process.pid}/status")

    def megabytes() -> int:
        return int(status.read_text().partition("VmRSS:")[2].split()[0]) >> 10

    before = megabytes()
    slow = asked_in_vain(worker, "/flood", pieces=400)
    wait_until(lambda: worker.health()[1]["in_flight"] == 1, seconds=10)
    time.sleep(1.0)
    assert worker.post("/wait", seconds=0).text == "done"
    assert worker.health()[1]["in_flight"] == 1, "400 MB are not made in advance"
    assert megabytes() - before < 60
    slow.close()
    wait_until(lambda: worker.health()[1]["in_flight"] == 0, seconds=10, what="a free process")


@pytest.mark.process
def test_who_waits_for_a_slot_has_a_deadline_and_may_leave(worker: RunningWorker) -> None:
    blocked = [BackgroundCall(worker, "/wait", {"seconds": 1.5}) for _ in range(2)]
    wait_until(lambda: worker.health()[1]["in_flight"] == 2, seconds=10)
    began = time.monotonic()
    leaver = asked_in_vain(worker, "/wait", seconds=30)
    late = BackgroundCall(worker, "/wait", {"seconds": 0}, x_slipway_timeout_ms="300")
    wait_until(lambda: worker.health()[1]["queue_depth"] == 2, seconds=5)
    leaver.close()
    assert late.result()[0] == 504
    assert time.monotonic() - began < 1.4
    wait_until(lambda: worker.health()[1]["queue_depth"] == 0, seconds=1, what="an empty queue")
    assert [one.result()[0] for one in blocked] == [200, 200]
    assert worker.post("/wait", seconds=0).text == "done"


CLIENTS = """
import json, resource, selectors, socket, sys, time
port, count = int(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
connections = []
for _ in range(count):
    connections.append(socket.create_connection(("127.0.0.1", port), timeout=30))
print("open", flush=True)
sys.stdin.readline()
body = json.dumps({"seconds": 0}).encode()
asked = b"POST /wait HTTP/1.1\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body) + body
answered = 0
for one in connections:
    one.sendall(asked)
    answered += b" 200 " in one.recv(4_096)[:16]
print(answered, flush=True)
sys.stdin.readline()
"""


@pytest.mark.slow
@pytest.mark.process
def test_ten_thousand_connections_stay_open_and_each_is_answered(worker: RunningWorker) -> None:
    count = 10_000
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < count + 100:
        pytest.skip("this system allows fewer open files")
    command = [sys.executable, "-c", CLIENTS, str(worker.port), str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as clients:
        assert clients.stdin
        assert clients.stdout
        try:
            assert clients.stdout.readline() == "open\n"
            took = []
            for _ in range(50):
                began = time.monotonic()
                assert worker.post("/wait", seconds=0).text == "done"
                took.append(time.monotonic() - began)
            assert sorted(took)[25] < 0.1, "others hardly notice them"
            clients.stdin.write("\n")
            clients.stdin.flush()
            assert clients.stdout.readline() == f"{count}\n"
        finally:
            clients.kill()
    wait_until(lambda: worker.health()[1]["in_flight"] == 0, seconds=30)
