"""A span of OpenTelemetry for each request that comes with a sampled `traceparent`: the gateway's span in it.

Nothing of it is loaded unless `OTEL_EXPORTER_OTLP_ENDPOINT` says where to; its other variables hold, too. The
span is made when the request has ended, out of what the desk knows of it: requests wait for nothing.
"""

import logging
import os
import re
import threading
import time
from contextlib import suppress
from typing import Any

from serving.desk import Progress, RequestOutcome, RequestWork
from serving.worker_command import WorkerCommand

log = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
FLUSH_WITHIN_SECONDS = 2.0
_SAMPLED = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][13579bdf]")


def is_sampled(traceparent: str) -> bool:
    """Whether whoever sent it (W3C Trace Context, 2.2) wants to see this request."""
    return _SAMPLED.fullmatch(traceparent) is not None


class Spans:
    """`load` takes 0.2 s: call it before requests come, in a thread."""

    def __init__(self, command: WorkerCommand) -> None:
        self._command = command
        self._tracer: Any = None
        self._sink: Any = None

    def load(self) -> None:
        """Begin, if it is wanted. Never raises."""
        is_off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
        if is_off or not any(os.environ.get(name) for name in ENDPOINTS):
            return
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            log.warning("%s is set, and traces need slipway[otel]: there are none", ENDPOINTS[1])
            return
        command = self._command
        whose = {
            "service.name": os.environ.get("OTEL_SERVICE_NAME") or "slipway-model-worker",
            "service.instance.id": command.name,
            "slipway.service": command.service,
            "slipway.deployment": command.deployment,
            "slipway.version": command.version_label,
        }
        self._sink = BatchSpanProcessor(OTLPSpanExporter())
        # At the exit it would wait for the collector, 30 s long: `flush` is what is called before.
        provider = TracerProvider(resource=Resource.create(whose), shutdown_on_exit=False)
        provider.add_span_processor(self._sink)
        self._tracer = provider.get_tracer("slipway.serving")

    def tell(self, outcome: RequestOutcome) -> None:
        """Trace one request that has ended. Never raises: its answer is on its way."""
        if self._tracer is None or not is_sampled(outcome.progress.traceparent):
            return
        try:
            self._tell(outcome)
        except Exception:
            log.exception("a span is lost")

    def _tell(self, outcome: RequestOutcome) -> None:
        progress = outcome.progress
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        ended_at = time.time_ns()
        began_at = ended_at - round(outcome.seconds * 1e9)
        said: dict[str, str | int | float | bool] = {
            "http.request.method": "POST",
            "http.route": str(outcome.route),
            "http.response.status_code": outcome.code,
            "slipway.worker": self._command.name,
            "gen_ai.request.model": self._command.version_label,
            "gen_ai.usage.input_tokens": progress.prompt_tokens,
            "gen_ai.usage.output_tokens": progress.completion_tokens,
            "slipway.broke_off": outcome.broke_off,
        }
        if (waited := progress.waited) is not None:
            said["slipway.queue_seconds"] = waited
        if (ttft := progress.time_to_first_token) is not None:
            said["slipway.time_to_first_token_seconds"] = ttft
        span = self._tracer.start_span(
            f"POST {outcome.route}",
            context=TraceContextTextMapPropagator().extract({"traceparent": progress.traceparent}),
            kind=SpanKind.SERVER,
            attributes=said,
            start_time=began_at,
        )
        if outcome.broke_off or outcome.code >= 500:
            span.set_status(Status(StatusCode.ERROR))
        if progress.work is not None:
            self._tell_parts(span, progress, progress.work)
        span.end(end_time=ended_at)

    def _tell_parts(self, parent: Any, progress: Progress, work: RequestWork) -> None:
        """Trace where the time of the request went: waiting for a slot, its handler, and of each call of a
        model the wait in its queue and the batch that it was answered in.
        """
        from opentelemetry.trace import set_span_in_context

        offset = time.time_ns() - time.monotonic_ns()

        def tell(inside: Any, name: str, began_at: int, ended_at: int, **said: str | int) -> Any:
            span = self._tracer.start_span(
                name,
                context=set_span_in_context(inside),
                attributes={f"slipway.{key}": value for key, value in said.items()},
                start_time=began_at + offset,
            )
            span.end(end_time=ended_at + offset)
            return span

        tell(parent, "queue", round(progress.began * 1e9), round((progress.seated_at or 0) * 1e9))
        handler = tell(parent, "handler", work.began_at, work.ended_at, process=work.process)
        for call in work.calls:
            began_at = call.sent_at + call.queued
            tell(handler, f"{call.method} queue", call.sent_at, began_at)
            tell(
                handler, f"{call.method} batch", began_at, began_at + call.worked, batch_size=call.batch_size
            )

    def flush(self) -> None:
        """Send what has not been sent; for a process that is about to end, whatever the collector does."""
        if self._sink is not None:
            # OpenTelemetry heeds no time limit here: each of up to five batches may take the exporter's 10 s.
            sending = threading.Thread(target=self._send_all, name="last spans", daemon=True)
            sending.start()
            sending.join(FLUSH_WITHIN_SECONDS)

    def _send_all(self) -> None:
        with suppress(Exception):
            self._sink.force_flush()
