"""Answers of a real Envoy to clients, and what is counted of them."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from common.fence import Fence
from gateway.latency import quantile_ms, total
from gateway.routes import RouteSpec
from gateway.traffic import TargetCounts
from perf.envoy_stack import CANARY, STABLE, EnvoyStack
from perf.load import LoadAnswer, LoadClient
from tests.patience import eventually

pytestmark = pytest.mark.stack


@pytest.fixture
def serving(stack: EnvoyStack) -> Iterator[EnvoyStack]:
    for target in (STABLE, CANARY):
        stack.run_workers(target)
    stack.release()
    return stack


async def until_in_flight(serving: EnvoyStack) -> TargetCounts:
    """The counts as of a moment at which the first request is at a worker.

    Envoy counts a request as in flight before it has a connection to the worker.
    """
    seen = []

    def one_is() -> bool:
        seen.append(counts(serving))
        return seen[-1].in_flight == 1 and serving.workers[STABLE.name][0].get("/served") == b"1"

    await asyncio.to_thread(eventually, one_is)
    return seen[-1]


def is_problem(answer: LoadAnswer, status: int, title: str) -> None:
    assert answer.status == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = json.loads(answer.body)
    assert (problem["status"], problem["title"], problem["type"]) == (status, title, "about:blank")
    assert problem["detail"]


def counts(stack: EnvoyStack) -> TargetCounts:
    return stack.metrics.counts("chat")[STABLE.name]


def test_every_answer_names_its_version_also_errors(serving: EnvoyStack) -> None:
    assert serving.get("/chat/v1").version == STABLE.version
    assert serving.get("/chat/v1", x_release="canary").version == CANARY.version
    assert serving.get("/chat/v1/status/500").version == STABLE.version
    assert serving.get("/chat/v1/status/404").version == STABLE.version
    assert serving.get("/chat/v1", x_release="nonsense").version == STABLE.version


def test_the_prefix_is_removed_and_only_whole_names_match(serving: EnvoyStack) -> None:
    assert serving.get("/chat/v1/status/418").status == 418
    assert serving.get("/chat/v1/status/418?x=1").status == 418
    assert serving.get("/chat/v1").body == STABLE.version.encode()
    assert serving.get("/chat-large/v1").status == 404
    assert serving.get("/chatty/v1").status == 404
    assert serving.get("/other/../chat/v1").status == 200
    assert serving.get("/chat/../other/v1").status == 404


def test_only_the_models_api_answers_through_the_gateway(serving: EnvoyStack) -> None:
    served = serving.workers[STABLE.name][0].get("/served")
    for path in (
        *("", "/", "?x=1", "/metrics", "/healthz", "/served", "/set?broken=1", "/docs"),
        *("/v10", "/v1x/models"),
        *("//v1/models", "/V1/models", "/v1/../metrics", "/v1/%2e%2e/metrics", "/v1/x/../../healthz"),
    ):
        answer = serving.get(f"/chat{path}")
        is_problem(answer, 404, "Not part of the model's API")
        assert serving.get(f"/chat{path}", x_release="canary").status == 404
    assert serving.workers[STABLE.name][0].get("/served") == served
    assert serving.get("/chat/v1").status == 200


def test_an_unknown_service_is_a_problem_document(serving: EnvoyStack) -> None:
    is_problem(serving.get("/nobody/v1"), 404, "No such service")
    # A worker's own 404 is its own affair.
    assert serving.get("/chat/v1/status/404").body == STABLE.version.encode()


def test_a_service_without_ready_workers_is_a_problem_document(stack: EnvoyStack) -> None:
    stack.gateway.set_route(RouteSpec("chat", STABLE, None, 0), fence=Fence(0, 1))
    answer = stack.get("/chat/v1")
    is_problem(answer, 503, "No worker is ready")
    assert answer.version == STABLE.version
    assert answer.headers["retry-after"] == "1"


def test_a_worker_that_refuses_is_a_problem_document(serving: EnvoyStack) -> None:
    serving.workers[STABLE.name][0].kill()
    answer = serving.get("/chat/v1")
    is_problem(answer, 503, "No worker could be reached")
    assert answer.version == STABLE.version
    eventually(lambda: b"No worker is ready" in serving.get("/chat/v1").body)


def test_a_worker_that_dies_before_it_answers_is_a_problem_document(serving: EnvoyStack) -> None:
    async def ask() -> LoadAnswer:
        client = LoadClient(serving.layout.port)
        asked = asyncio.create_task(client.get("/chat/v1/slow?ms=60000"))
        await until_in_flight(serving)
        serving.workers[STABLE.name][0].kill()
        answer = await asked
        client.close()
        return answer

    answer = asyncio.run(ask())
    is_problem(answer, 502, "The worker broke off")
    assert answer.version == STABLE.version
    seen = counts(serving)
    assert (seen.requests, seen.errors) == (1, 1)


def test_an_answer_that_breaks_off_is_an_error_and_no_latency(serving: EnvoyStack) -> None:
    with pytest.raises(asyncio.IncompleteReadError):
        serving.get("/chat/v1/cut?ms=50")
    serving.get("/chat/v1")
    eventually(lambda: total(counts(serving).latency_ms) == 1)
    seen = counts(serving)
    assert (seen.routed, seen.requests, seen.errors) == (2, 2, 1)


def test_a_client_that_leaves_before_the_answer_is_counted_as_such(serving: EnvoyStack) -> None:
    async def leave() -> None:
        client = LoadClient(serving.layout.port)
        asked = asyncio.create_task(client.get("/chat/v1/slow?ms=60000"))
        await until_in_flight(serving)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        client.close()

    asyncio.run(leave())
    eventually(lambda: counts(serving).abandoned == 1)
    seen = counts(serving)
    assert (seen.routed, seen.requests, seen.errors, seen.in_flight) == (1, 0, 0, 0)
    assert total(seen.latency_ms) == 0


def test_a_stream_counts_as_routed_and_in_flight_from_its_first_moment(serving: EnvoyStack) -> None:
    async def watch() -> tuple[TargetCounts, TargetCounts]:
        client = LoadClient(serving.layout.port)
        stream = asyncio.create_task(client.get("/chat/v1/stream?chunks=20&every_ms=100"))
        during = await until_in_flight(serving)
        await stream
        client.close()
        return during, await asyncio.to_thread(counts, serving)

    during, after = asyncio.run(watch())
    assert (during.routed, during.requests, during.in_flight) == (1, 0, 1)
    assert (after.routed, after.requests, after.in_flight) == (1, 1, 0)
    eventually(lambda: total(counts(serving).latency_ms) == 1)
    seen = counts(serving)
    whole, first_byte = quantile_ms(seen.latency_ms, 1), quantile_ms(seen.first_byte_ms, 1)
    assert whole
    assert first_byte
    assert whole >= 1500, "twenty pieces, a tenth of a second apart"
    assert first_byte < whole / 2


def test_good_answers_alone_have_latencies(serving: EnvoyStack) -> None:
    for status in (200, 201, 302, 400, 404, 422, 429, 500, 503):
        serving.get(f"/chat/v1/status/{status}")
    eventually(lambda: total(counts(serving).latency_ms) == 3)
    seen = counts(serving)
    assert (seen.requests, seen.errors) == (9, 2)


def test_envoy_keeps_quiet_about_answers_that_it_cannot_time(serving: EnvoyStack) -> None:
    serving.get("/nobody")
    with pytest.raises(asyncio.IncompleteReadError):
        serving.get("/chat/v1/cut?ms=1")
    serving.kill()
    assert "non-number" not in serving.log.read_text()


def test_each_request_leaves_one_line_that_says_who_answered(serving: EnvoyStack) -> None:
    answer = serving.get("/chat/v1?secret=1", x_release="canary", x_request_id="from-the-client")
    assert answer.headers["x-request-id"] == "from-the-client"
    eventually(lambda: serving.layout.access_log.read_text().count("\n") == 1)
    text = serving.layout.access_log.read_text()
    line = json.loads(text)
    assert line["target"] == CANARY.name
    assert line["route"] == "chat/forced"
    assert line["version"] == CANARY.version
    assert line["path"] == "/chat/v1"
    assert line["request_id"] == "from-the-client"
    assert line["status"] == 200
    assert "secret" not in text


def test_a_client_cannot_set_the_gateways_own_headers(serving: EnvoyStack) -> None:
    answer = serving.get("/chat/v1/slow?ms=300", x_envoy_upstream_rq_timeout_ms="50")
    assert answer.status == 200
    assert "x-envoy-upstream-service-time" not in answer.headers
    assert answer.headers["server"] == "slipway"
