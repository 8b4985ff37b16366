"""A model request that is traced stays so through a real Envoy, to the worker; others cost nothing."""

from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from common import tracing
from common.fence import Fence
from gateway.routes import RouteSpec, WorkerEndpoint
from perf.envoy_stack import STABLE, EnvoyStack
from tests.collector import Collector, traced
from tests.http_server import http_server
from tests.patience import eventually

pytestmark = pytest.mark.stack


class Worker(BaseHTTPRequestHandler):
    """Is ready, and answers with the traceparent that it was given."""

    def do_GET(self) -> None:
        body = self.headers.get("traceparent", "none").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with traced(monkeypatch) as one:
        yield one


@pytest.fixture
def envoy(tmp_path: Path, collector: Collector) -> Iterator[EnvoyStack]:
    stack = EnvoyStack(tmp_path, otlp=f"{collector.url}/v1/traces")
    with http_server(Worker) as url:
        try:
            stack.start()
            place = WorkerEndpoint("127.0.0.1", int(url.rpartition(":")[2]))
            stack.gateway.set_target(STABLE.name, [place], observed_at=datetime.now(UTC))
            stack.gateway.set_route(RouteSpec("chat", STABLE, None, 0), fence=Fence(1, 1))
            eventually(lambda: stack.gateway.ready(STABLE.name))
            yield stack
        finally:
            stack.stop()


def test_a_trace_goes_through_the_gateway_to_the_worker(envoy: EnvoyStack, collector: Collector) -> None:
    assert envoy.get("/chat/v1/models").body.endswith(b"-00"), "nobody asked to trace it"
    tracing.flush()
    collector.spans.clear()
    with tracing.span("step"):
        ours = tracing.traceparent()
        taken = envoy.get("/chat/v1/models", **tracing.headers()).body.decode()
        assert envoy.gateway.health().ok
    tracing.flush()
    eventually(lambda: [one for one in collector.spans if one.service == "slipway-gateway"])
    spans = [one for one in collector.spans if one.service == "slipway-gateway"]
    assert [one.trace for one in spans] == [ours[3:35]]
    assert spans[0].parent == ours[36:52]
    assert taken == f"00-{spans[0].trace}-{spans[0].span}-01"
    asked = [one for one in collector.spans if one.name.startswith("envoy GET ")]
    assert asked
    assert {(one.trace, one.parent) for one in asked} == {(ours[3:35], ours[36:52])}
