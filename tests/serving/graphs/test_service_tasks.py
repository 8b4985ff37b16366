"""Tasks that are released services: their calls go through an HTTP server as the gateway, or a real Envoy."""

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from common.fence import Fence
from gateway.routes import RouteSpec, WorkerEndpoint
from perf.envoy_stack import STABLE, EnvoyStack
from serving.graphs.executor import GraphExecutor
from serving.graphs.profiling import profile
from serving.graphs.serial import SerialRun
from serving.graphs.service_calls import GATEWAY_URL
from slipway import graph
from tests.patience import eventually
from tests.serving.runtime.rig import service

pytestmark = pytest.mark.timeout(60)
PROGRAM = """
from slipway import graph

shout = graph.service("shout", takes=str, returns=dict, in_flight=4, timeout_seconds=10)

@graph.task
def prepared(text: str) -> str:
    return text.strip()

with graph.Graph("asks") as g:
    g.output(shout(prepared(g.input("text", str))).text)
"""


class PlayedGateway(ThreadingHTTPServer):
    """Answers /shout/run: 503 to the first request of "full", 422 to "poison", late to "slow"."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[tuple[str, str, int]] = []
        self.most = self._now = 0
        self.leaves = threading.Event()
        self._lock = threading.Lock()

    def enter(self, by: int) -> None:
        with self._lock:
            self._now += by
            self.most = max(self.most, self._now)


class _Handler(BaseHTTPRequestHandler):
    server: PlayedGateway

    def do_POST(self) -> None:
        word = json.loads(self.rfile.read(int(self.headers["content-length"])))
        is_first = word not in [seen for _, seen, _ in self.server.seen]
        self.server.seen.append((self.path, word, int(self.headers["x-slipway-timeout-ms"])))
        self.server.enter(1)
        self.server.leaves.wait(10) if word == "slow" else time.sleep(0.1)
        self.server.enter(-1)
        if word == "full" and is_first:
            self._answer(503, {}, {"retry-after": "0"})
        elif word == "poison":
            self._answer(422, {"detail": "no such word"})
        else:
            self._answer(200, {"text": word.upper()})

    def _answer(self, status: int, document: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(OSError):  # whoever asked has left
            self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedGateway]:
    with PlayedGateway() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv(GATEWAY_URL, f"http://127.0.0.1:{server.server_address[1]}")
        yield server
        server.leaves.set()
        server.shutdown()


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(PROGRAM)
    return tmp_path / "app.py"


async def _run(app: Path, words: list[str], deadline: float | None = None) -> list[Any]:
    executor = GraphExecutor(app)
    await executor.start()
    try:
        asked = [executor.submit({"text": word.encode()}, deadline_seconds=deadline)[1] for word in words]
        ended = await asyncio.gather(*asked, return_exceptions=True)
    finally:
        await executor.stop()
    return [one[""][1].decode() if isinstance(one, dict) else str(one) for one in ended]


@pytest.mark.process
def test_items_call_the_service_side_by_side_and_fail_alone(app: Path, gateway: PlayedGateway) -> None:
    words = ["a", "full", "poison", "b", "c", "d"]
    assert asyncio.run(_run(app, words)) == [
        "A", "FULL", "shout: ItemFailed: shout answered 422: no such word", "B", "C", "D"
    ]  # fmt: skip
    assert {path for path, _, _ in gateway.seen} == {"/shout/run"}
    assert 1 < gateway.most <= 4
    assert [word for _, word, _ in gateway.seen].count("poison") == 1


@pytest.mark.process
def test_the_deadline_of_an_item_reaches_the_service(app: Path, gateway: PlayedGateway) -> None:
    assert asyncio.run(_run(app, ["slow"], deadline=3.0)) == ["its deadline has passed"]
    assert gateway.seen[0][2] <= 3000


def test_the_serial_run_calls_it_as_well(app: Path, gateway: PlayedGateway) -> None:
    run = SerialRun(graph.load_graph(app), app.parent)
    assert run.run({"text": " full "}) == {"": "FULL"}
    with pytest.raises(graph.ItemFailed, match="shout answered 422: no such word"):
        run.run({"text": "poison"})


@pytest.mark.process
def test_a_profile_counts_it_as_remote(app: Path, gateway: PlayedGateway) -> None:
    (app.parent / "items.jsonl").write_text('"a"\n"b"\n')
    tasks = {one["task"]: one for one in profile(app, app.parent / "items.jsonl", beside=0)["tasks"]}
    assert (tasks["shout"]["option"], tasks["prepared"]["option"]) == ("service", "cpu")
    assert tasks["shout"]["cores"] < 0.5
    times = {one["size"]: one["seconds"] for one in tasks["shout"]["times"]}
    assert times[4] < 2 * times[1] + 0.2


def test_a_gateway_that_nobody_named_is_said(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(GATEWAY_URL, raising=False)
    with pytest.raises(graph.GraphError, match=f"set {GATEWAY_URL}"):
        SerialRun(graph.load_graph(app), app.parent)


SHOUT = """
from slipway import serve

app = serve.App(processes=2)

@app.post("/run")
def run(request):
    return {"text": request.json().upper()}
"""


@pytest.mark.stack
def test_a_task_calls_a_released_service_through_a_real_envoy(
    app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = EnvoyStack(tmp_path / "envoy")
    with service(tmp_path / "shout", SHOUT) as worker:
        try:
            stack.start()
            place = WorkerEndpoint("127.0.0.1", int(worker.url.rpartition(":")[2]))
            stack.gateway.set_target(STABLE.name, [place], observed_at=datetime.now(UTC))
            stack.gateway.set_route(RouteSpec("shout", STABLE, None, 0, all_paths=True), fence=Fence(1, 1))
            eventually(lambda: stack.gateway.ready(STABLE.name))
            monkeypatch.setenv(GATEWAY_URL, f"http://127.0.0.1:{stack.layout.port}")
            assert asyncio.run(_run(app, ["a", "b", "c"])) == ["A", "B", "C"]
        finally:
            stack.stop()
