"""A collector of OpenTelemetry's, as far as a test needs one: OTLP over HTTP, spans as they were sent."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from common import tracing
from tests.http_server import http_server

FAILED = 2


@dataclass(frozen=True)
class TracedSpan:
    """A span."""

    service: str
    name: str
    trace: str
    span: str
    parent: str
    links: tuple[str, ...]
    """Traces that it is linked to."""
    attributes: dict[str, str]
    failed: bool
    seconds: float


class Collector:
    def __init__(self) -> None:
        self.url = ""
        self.spans: list[TracedSpan] = []

    def named(self, name: str) -> list[TracedSpan]:
        return [span for span in self.spans if span.name == name]

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            said = {one.key: one.value.string_value for one in resource.resource.attributes}
            spans = [span for scope in resource.scope_spans for span in scope.spans]
            self.spans += [
                TracedSpan(
                    service=said.get("service.name", ""),
                    name=span.name,
                    trace=span.trace_id.hex(),
                    span=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    links=tuple(link.trace_id.hex() for link in span.links),
                    attributes={
                        one.key: one.value.string_value or str(one.value.int_value) for one in span.attributes
                    },
                    failed=span.status.code == FAILED,
                    seconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
                )
                for span in spans
            ]


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    class TraceHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            collector.take(self._body())
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _body(self) -> bytes:
            """Read a body of known length, or one in chunks, as Envoy sends it."""
            if length := self.headers["content-length"]:
                return self.rfile.read(int(length))
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def log_message(self, *_: object) -> None:
            pass

    with http_server(TraceHandler) as url:
        collector.url = url
        yield collector


@contextmanager
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """This process sends its spans to it."""
    for name in ("_resource", "_tracer", "_sink"):
        monkeypatch.setattr(tracing, name, None)
    with collecting() as one:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", one.url)
        tracing.trace({"service.name": "slipway-test"})
        yield one
        if tracing._sink is not None:
            tracing._sink.shutdown()
