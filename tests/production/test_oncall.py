"""What a person on call sees of processes that run: one request, followed through all of them."""

import json
import secrets
import signal
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.collector import Collector, collecting
from tests.production.site import Host, Role, eventually
from tests.webhooks.receiver import Receiver, receiving

pytestmark = [pytest.mark.process, pytest.mark.any_database]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        one.reply.status = 500
        yield one


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as one:
        yield one


@pytest.fixture
def logs(host: Host, collector: Collector) -> Iterator[Host]:
    """A machine whose roles write JSON and send spans; none of them outlives the test, however it ends."""
    before = len(host.site.roles)
    yield host.twin(
        SLIPWAY_LOG_FORMAT="json",
        SLIPWAY_WEBHOOK_ALLOWED_HOSTS="127.0.0.1",
        SLIPWAY_LOG_LEVEL="INFO",
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        OTEL_BSP_SCHEDULE_DELAY="100",
    )
    for role in host.site.roles[before:]:
        if role.process.poll() is None:
            sys.stderr.write(role.log[-4_000:])
            role.stop(signal.SIGKILL)


def lines_of(role: Role) -> list[dict[str, Any]]:
    """All but what the command line itself says before it logs."""
    return [json.loads(line) for line in whole_lines_of(role) if line.startswith("{")]


def whole_lines_of(role: Role) -> list[str]:
    """The last one may be half written."""
    return role.log.rpartition("\n")[0].splitlines()


def test_a_request_is_found_in_the_logs_and_the_trace_of_all_that_it_asked_for(
    host: Host, logs: Host, receiver: Receiver, collector: Collector
) -> None:
    request_id, trace = f"from-the-client-{secrets.token_hex(4)}", secrets.token_hex(16)
    web, worker = logs.web(), logs.start("worker", "--processes", "1")
    token = {"Authorization": f"Bearer {host.token}"}

    def post(path: str, body: Any, **headers: str) -> httpx2.Response:
        address = f"{logs.url}/api/v1/{path}"
        return httpx2.post(address, json=body, headers={**token, **headers}, timeout=60)

    webhook = post("webhooks/", {"url": receiver.url, "events": ["work.stuck"]}).json()
    asked = post(
        f"webhooks/{webhook['id']}/test/?secret=CANARY",
        {},
        **{"X-Request-ID": request_id, "traceparent": f"00-{trace}-{secrets.token_hex(8)}-01"},
    )
    assert asked.status_code == 202, asked.text
    assert asked.headers["X-Request-ID"] == request_id
    eventually(lambda: receiver.received)

    # Both sides of it are told of after the answer.
    def of_the_test() -> list[dict[str, Any]]:
        return [line for line in lines_of(web) if line.get("route") == "webhook-test"]

    eventually(lambda: of_the_test() and collector.named("POST webhook-test"))
    (access,) = of_the_test()
    assert (access["role"], access["request_id"], access["status"]) == ("web", request_id, 202)
    assert (access["actor"], access["client"], access["trace_id"]) == ("admin", "127.0.0.1", trace)
    eventually(lambda: collector.named("POST 127.0.0.1"))
    (call,) = collector.named("POST 127.0.0.1")
    (request,) = collector.named("POST webhook-test")
    eventually(lambda: [span for span in collector.spans if span.span == call.parent])
    (step,) = [span for span in collector.spans if span.span == call.parent]
    assert {call.trace, request.trace, step.trace} == {trace}
    assert (request.service, step.service) == ("slipway-web", "slipway-worker")
    assert step.parent == request.span
    # Celery itself says goodbye in words of its own.
    assert [line for line in worker.log.splitlines() if line and not line.startswith("{")] == []
    worker.stop()  # how it ends is told in test_roles.py
    assert "CANARY" not in web.log + worker.log
    assert host.token.rsplit("_", 1)[1] not in web.log + worker.log
    web.stop()
