"""Traces: spans of OpenTelemetry, when there is somewhere to send them; else nothing, at no cost.

Its packages are loaded with the first span of a process that was told to `trace`, so that who does not trace
neither needs them nor waits for them. Where spans go, and how many, is OpenTelemetry's own business: its
standard variables (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_TRACES_SAMPLER`, ...).
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Literal

Kind = Literal["server", "client", "internal"]
Attributes = Mapping[str, str | int | float | bool]

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Either says where to."""
FLUSH_WITHIN_SECONDS = 2.0

_resource: Attributes | None = None
_lock = threading.Lock()
_tracer: Any = None
_sink: Any = None
_held: "ContextVar[list[Any] | None]" = ContextVar("held_spans", default=None)


def trace(resource: Attributes) -> None:
    """Record spans from now on, in this process and in those that it forks. `resource`: what all say."""
    global _resource
    _resource = resource


def is_on() -> bool:
    return _resource is not None


class TraceSpan:
    """A span of work in progress, and what may be said of it."""

    def __init__(self, span: Any = None) -> None:
        self._span = span
        self.is_kept = False

    def keep(self) -> None:
        """Mark it as worth sending, without which `span(..., on_demand=True)` sends nothing."""
        self.is_kept = True

    def name(self, name: str) -> None:
        if self._span is not None:
            self._span.update_name(name)

    def say(self, **attributes: str | int | float | bool) -> None:
        """Underscores stand for dots."""
        if self._span is not None:
            for name, value in attributes.items():
                self._span.set_attribute(name.replace("__", "\0").replace("_", ".").replace("\0", "_"), value)

    def fail(self, reason: str) -> None:
        if self._span is not None:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_status(Status(StatusCode.ERROR, reason[:300]))
        self.keep()


NOTHING = TraceSpan()


@contextmanager
def span(
    name: str,
    kind: Kind = "internal",
    *,
    parent: str = "",
    link: str = "",
    on_demand: bool = False,
    attributes: Attributes | None = None,
) -> Iterator[TraceSpan]:
    """Something that is being done, within what is being done already.

    `parent`, `link`: traceparents, of what has asked for it, and of what it only goes back to. `on_demand`:
    it and what lies within are sent only if somebody says so (`TraceSpan.keep`), or it fails.
    """
    if _resource is None:
        yield NOTHING
        return
    from opentelemetry import trace as api

    linked = _remote(link) if link else None
    begun = _get_tracer().start_span(
        name,
        context=api.set_span_in_context(api.NonRecordingSpan(_remote(parent))) if parent else None,
        kind=api.SpanKind[kind.upper()],
        links=[api.Link(linked)] if linked else None,
        attributes=attributes,
    )
    told = TraceSpan(begun)
    held: list[Any] = []
    token = _held.set(held) if on_demand else None
    try:
        with api.use_span(begun, end_on_exit=False, record_exception=False):
            yield told
    except BaseException as error:
        told.fail(f"{type(error).__name__}: {error}")
        raise
    finally:
        begun.end()
        if token is not None:
            _held.reset(token)
            if told.is_kept:
                _send(held)


def traceparent() -> str:
    """W3C's, of what is being done; empty when nothing is traced."""
    if _tracer is None:
        return ""
    from opentelemetry import trace as api

    found = api.get_current_span().get_span_context()
    if not found.is_valid:
        return ""
    # Without flags that came after the first, which not everybody reads.
    return f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags.sampled:02x}"


def headers() -> dict[str, str]:
    """Return the headers of a request to a part of ours."""
    current = traceparent()
    return {"traceparent": current} if current else {}


def flush() -> None:
    """Send what has not been sent; for a process that is about to end, whatever the collector does."""
    if _sink is not None:
        # OpenTelemetry heeds no time limit here: each of up to five batches may take the exporter's 10 s.
        sending = threading.Thread(target=_send_all, name="last spans", daemon=True)
        sending.start()
        sending.join(FLUSH_WITHIN_SECONDS)


def _send_all() -> None:
    with suppress(Exception):
        _sink.force_flush()


def _send(ended: list[Any]) -> None:
    outer = _held.get()
    if outer is not None:
        outer.extend(ended)
        return
    for one in ended:
        _sink.on_end(one)


def _remote(text: str) -> Any:
    """The context of a span of another process; one that is not valid for what is none."""
    from opentelemetry import trace as api
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    found = TraceContextTextMapPropagator().extract({"traceparent": text})
    return api.get_current_span(found).get_span_context()


def _get_tracer() -> Any:
    global _tracer, _sink
    with _lock:
        if _tracer is None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor

            class HoldingSpanProcessor(SpanProcessor):
                """Keeps back what may not be worth sending."""

                def on_end(self, span: Any) -> None:
                    held = _held.get()
                    if held is None:
                        _sink.on_end(span)
                    else:
                        held.append(span)

            _sink = BatchSpanProcessor(OTLPSpanExporter())
            provider = TracerProvider(resource=Resource.create(dict(_resource or {})))
            provider.add_span_processor(HoldingSpanProcessor())
            _tracer = provider.get_tracer("slipway")
        return _tracer
