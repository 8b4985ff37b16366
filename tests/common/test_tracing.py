"""A request, the step that it asked for, and the call of the step: one trace; and none where nobody asked."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import WebhookEndpoint
from accounts.services.webhooks import PURPOSE
from common import tracing
from common.logs import context
from common.models import Intent
from common.reconcile import kernel
from common.reconcile.spans import SAME_TRACE_SECONDS, step_span
from common.sealed import seal
from tests.cast import Api, person
from tests.collector import Collector, traced
from tests.toys.models import Parcel
from tests.toys.scene import Scene
from tests.webhooks.receiver import receiving

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]

PARENT = "00-" + "a1" * 16 + "-" + "b2" * 8 + "-01"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with traced(monkeypatch) as one:
        yield one


def test_a_request_its_step_and_the_call_of_the_step_are_one_trace(collector: Collector, settings) -> None:
    settings.SLIPWAY_WEBHOOK_ALLOWED_HOSTS = ("127.0.0.1",)
    client = Client()
    client.force_login(person("ada", superuser=True))
    secret = "whsec_" + "c2VjcmV0" * 4
    with receiving() as receiver:
        endpoint = WebhookEndpoint.objects.create(
            url=receiver.url, events=["audit.head"], sealed_secret=seal(secret, purpose=PURPOSE)
        )
        asked = Api(client=client).post(f"webhooks/{endpoint.pk}/test/", {}, traceparent=PARENT)
        assert asked.status_code == 202, asked.content
        kernel.advance("accounts.webhookendpoint", endpoint.pk)
        (received,) = receiver.received
    tracing.flush()

    (request,) = collector.named("POST webhook-test")
    (call,) = collector.named("POST 127.0.0.1")
    (step,) = [span for span in collector.spans if span.span == call.parent]
    assert {span.trace for span in collector.spans} == {PARENT[3:35]}
    assert request.parent == PARENT[36:52]
    assert step.parent == request.span
    assert step.name.startswith("accounts.webhookendpoint ")
    assert step.attributes["slipway.id"] == str(endpoint.pk)
    assert step.attributes["slipway.request_id"] == asked["X-Request-ID"]
    assert (call.attributes["http.response.status_code"], call.service) == ("200", "slipway-test")
    assert request.attributes["http.route"] == "webhook-test"
    assert "traceparent" not in received.headers


def test_a_step_long_after_the_request_has_a_trace_of_its_own_that_is_linked(collector: Collector) -> None:
    long_ago = int(timezone.now().timestamp()) - SAME_TRACE_SECONDS - 60
    origin = context.RequestOrigin("request-1", "ada", PARENT, long_ago)
    with context.on_behalf_of(origin.packed()), step_span("toys.parcel", 1) as span:
        assert context.unpacked(context.origin_now()).traceparent == tracing.traceparent()
        span.keep()
    tracing.flush()
    (told,) = collector.spans
    assert told.trace != PARENT[3:35]
    assert (told.parent, told.links) == ("", (PARENT[3:35],))


def test_a_look_that_finds_nothing_new_is_not_told_with_all_that_it_asked(collector: Collector) -> None:
    origin = context.RequestOrigin("request-1", "ada", PARENT, int(timezone.now().timestamp()))
    with context.on_behalf_of(origin.packed()):
        with step_span("toys.parcel", 1), tracing.span("asked in vain", "client"):
            pass
        with step_span("toys.parcel", 2) as span, tracing.span("asked", "client"):
            span.keep()
        with pytest.raises(RuntimeError), step_span("toys.parcel", 3), tracing.span("failed", "client"):
            raise RuntimeError("no")
    tracing.flush()
    assert sorted(span.name for span in collector.spans) == ["asked", "failed", "toys.parcel", "toys.parcel"]
    assert [span.failed for span in collector.named("failed")] == [True]


def test_what_nobody_has_asked_for_is_not_traced(collector: Collector) -> None:
    Scene().finish()
    tracing.flush()
    assert collector.spans == []


def test_the_journal_goes_back_to_the_steps_own_spans(collector: Collector) -> None:
    with context.asked("request-1") as asked, tracing.span("request", "server", parent=PARENT):
        asked.traceparent = tracing.traceparent()
        scene = Scene()
    scene.finish()
    tracing.flush()
    steps = {span.span for span in collector.spans if span.name.startswith("toys.parcel ")}
    assert len(steps) >= 3
    written = [context.unpacked(intent.origin) for intent in Intent.objects.all()]
    assert written
    assert {origin.traceparent[36:52] for origin in written} <= steps
    assert {origin.request_id for origin in written} == {"request-1"}
    assert Parcel.objects.get().origin.startswith("request-1 00-" + PARENT[3:35])


@pytest.mark.parametrize("offered", ["", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "x" * 5_000])
def test_a_traceparent_that_is_none_begins_a_trace(collector: Collector, offered: str) -> None:
    assert Client().get("/accounts/login/", headers={"traceparent": offered}).status_code == 200
    tracing.flush()
    (request,) = collector.spans
    assert request.parent == ""
    assert len(request.trace) == 32


def test_who_does_not_trace_loads_nothing_of_it() -> None:
    code = (
        "import sys; from common import tracing; from common.logs import formatters\n"
        "with tracing.span('x') as span: span.say(a=1); span.fail('y')\n"
        "assert tracing.traceparent() == '' and tracing.headers() == {}\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_a_collector_that_never_answers_keeps_no_process_from_ending() -> None:
    """Spans fill the queue, so that several batches wait, and one is on its way already."""
    silent = socket.create_server(("127.0.0.1", 0), backlog=64)
    program = """
import sys, time
from common import tracing
tracing.trace({"service.name": "test"})
for number in range(2_000):
    with tracing.span("a step"):
        pass
time.sleep(1)
began = time.monotonic()
tracing.flush()
print(time.monotonic() - began)
"""
    address = f"http://127.0.0.1:{silent.getsockname()[1]}"
    with silent:
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": address},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
    assert 1 < float(done.stdout) < 8
    assert time.monotonic() - began < 30
