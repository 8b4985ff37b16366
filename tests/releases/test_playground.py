"""A person tries stable and candidate, at real workers."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from accounts.models import User
from accounts.states import Role
from clusters.models import Worker
from perf.upstream import Upstream
from releases.answer_stream import AnswerText, answer_events
from releases.states import ReleaseState as S
from tests.cast import Api, token_of
from tests.releases.browsing import as_person
from tests.releases.world import Scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process, pytest.mark.timeout(60)]


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    one = Upstream("hello-from-a-worker")
    yield one
    one.kill()


def told(encoded: bytes) -> tuple[str, dict[str, Any]]:
    name, data = encoded.decode().strip().split("\n")
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def asked(url: str) -> list[tuple[str, dict[str, Any]]]:
    async def every() -> list[bytes]:
        return [one async for one in answer_events(url, method="POST", body={})]

    return [told(one) for one in asyncio.run(every())]


def test_an_answer_is_told_while_it_comes(upstream: Upstream) -> None:
    (first, head), *texts, (last, end) = asked(f"http://127.0.0.1:{upstream.port}/v1/chat/completions")

    assert (first, head["status"], last) == ("answer", 200, "end")
    assert "".join(data["text"] for _, data in texts) == "a" * 40
    assert end["completion_tokens"] == 40
    assert end["problem"] == ""
    assert texts[0][1]["milliseconds"] < texts[-1][1]["milliseconds"] - 1000


def test_who_reads_no_further_frees_the_worker(upstream: Upstream) -> None:
    url = f"http://127.0.0.1:{upstream.port}/v1/stream?chunks=100000&every_ms=1"

    async def stopped() -> None:
        events = answer_events(url, method="GET", body={})
        assert told(await anext(events))[0] == "answer"
        await asyncio.wait_for(events.aclose(), 5)

    asyncio.run(stopped())


def test_a_worker_that_is_gone_is_said_in_the_last_event(upstream: Upstream) -> None:
    upstream.kill()

    ((name, data),) = asked(f"http://127.0.0.1:{upstream.port}/v1")

    assert (name, data["completion_tokens"]) == ("end", None)
    assert data["problem"]


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("application/json", '{"choices": [{"message": {"content": "Hi"}}]}', "Hi"),
        ("application/json", '{"label":"cat"}', '{\n  "label": "cat"\n}'),
        ("text/event-stream", 'data: {"choices": []}\n\ndata: plain\n\ndata: [DONE]\n\n', "plain\n"),
        ("image/png", "abc", "image/png, 3 bytes"),
    ],
)
def test_answers_of_other_kinds_are_readable(kind: str, body: str, text: str) -> None:
    reader = AnswerText(kind)

    pieces = [reader.feed(body[at : at + 1].encode()) for at in range(len(body))]

    assert "".join([*pieces, reader.end()]) == text


def test_each_side_is_asked_by_rest_and_one_without_a_worker_says_so(
    scene: Scene, upstream: Upstream
) -> None:
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    workers = Worker.objects.filter(deployment__name=scene.stable)
    workers.update(address="127.0.0.1", port=upstream.port, state="ready")
    Worker.objects.filter(deployment__name=scene.candidate).delete()
    dina = as_person("dina", scene, Role.DEVELOPER)
    api = Api(token_of(User.objects.get(username="dina")))
    address = f"/api/v1/services/{scene.service.name}/ask/"

    page = dina.get(f"/services/{scene.service.name}/playground/").content.decode()
    answer = api.post(address, {"path": "/v1/tokens"})

    assert 'data-side="stable"' in page
    assert 'data-side="candidate"' in page
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/event-stream")
    assert api.post(address, {"side": "candidate"}).status_code == 409
    assert api.post(address, {"path": "//elsewhere"}).status_code == 400


def test_only_who_may_change_the_service_has_a_playground(scene: Scene) -> None:
    vic = as_person("vic", scene, Role.VIEWER)

    assert vic.get(f"/services/{scene.service.name}/playground/").status_code == 403
