"""Answers to copied requests: a real Envoy copies, real workers keep, both sides' answers come in pairs."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest

from common.fence import Fence
from gateway.routes import RouteSpec, WorkerEndpoint
from perf.envoy_stack import CANARY, STABLE, EnvoyStack
from releases import kept_answers
from releases.kept_answers import KeptLook, source
from serving.protocol import KEEP_HEADER, KEPT_PATH
from tests.patience import eventually
from tests.serving.workers import RunningWorker, running

pytestmark = pytest.mark.stack
KEY = "the-key-of-this-comparison"


@pytest.fixture
def sides(stack: EnvoyStack, tmp_path: Path) -> Iterator[list[RunningWorker]]:
    """Stable behind Envoy, and a candidate that gets a copy of every request."""
    with contextlib.ExitStack() as both:
        workers = [
            both.enter_context(running(tmp_path / name, settings=settings))
            for name, settings in (("old", {}), ("new", {"fail_share": 0.5, "token_seconds": 0.01}))
        ]
        for target, worker in zip((STABLE, CANARY), workers, strict=True):
            worker.until_ready()
            endpoints = [WorkerEndpoint("127.0.0.1", worker.port)]
            stack.gateway.set_target(target.name, endpoints, observed_at=datetime.now(UTC))
        spec = RouteSpec("chat", STABLE, CANARY, 0, mirror_percent=100, answers_key=KEY)
        stack.gateway.set_route(spec, fence=Fence(1, 1))
        eventually(lambda: stack.get("/chat/v1/models").status == 200)
        yield workers


def ask(stack: EnvoyStack, prompt: str, **body: object) -> httpx2.Response:
    url = f"http://127.0.0.1:{stack.layout.port}/chat/v1/completions"
    return httpx2.post(url, json={"prompt": prompt, **body}, headers={KEEP_HEADER: "a client's"}, timeout=20)


def look(sides: list[RunningWorker], key: str = KEY, **known: object) -> KeptLook:
    stable, candidate = ([("127.0.0.1", worker.port)] for worker in sides)
    return source.look(key, candidate, stable, **{"marks": {}, "used": (), **known})  # type: ignore[arg-type]


def test_both_answers_to_a_copied_request_come_as_one_pair_streamed_or_not(
    stack: EnvoyStack, sides: list[RunningWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_answers, "ENDED_FOR_SECONDS", 0.0)
    for number in range(12):
        assert ask(stack, f"number {number} of twelve", stream=number % 2 == 0).status_code == 200
    eventually(lambda: len(look(sides).pairs) == 12)
    found = look(sides)
    pairs = sorted(found.pairs, key=lambda one: one.shown)
    assert [one.shown for one in pairs] == sorted(f"number {one} of twelve" for one in range(12))
    assert all(one.stable.text.startswith(one.shown) for one in pairs)
    assert {one.stable.has_failed for one in pairs} == {False}
    failed = [one for one in pairs if one.candidate.has_failed]
    assert 0 < len(failed) < 12, "half of the candidate's answers are errors"
    answered = [one for one in pairs if not one.candidate.has_failed]
    assert all(one.candidate.text == one.stable.text for one in answered)
    assert all(one.candidate.worker_seconds > one.stable.worker_seconds for one in answered)
    assert look(sides, marks=found.marks).pairs == (), "no answer counts twice"
    again = look(sides, used=found.used)
    assert (len(again.pairs), again.unpaired) == (0, 12)


def test_nobody_reads_the_answers_without_the_key_or_through_the_gateway(
    stack: EnvoyStack, sides: list[RunningWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_answers, "ENDED_FOR_SECONDS", 0.0)
    ask(stack, "a secret")
    eventually(lambda: len(look(sides).pairs) == 1)
    for key in ("", "a client's", "another"):
        assert look(sides, key=key).pairs == ()
    for path in (f"/chat{KEPT_PATH}", f"/chat/v1{KEPT_PATH}"):
        url = f"http://127.0.0.1:{stack.layout.port}{path}"
        asked = httpx2.post(url, json={"digests": []}, headers={KEEP_HEADER: KEY}, timeout=20)
        assert asked.status_code == 404
    spec = stack.gateway.desired_route("chat")
    assert spec is not None
    stack.gateway.set_route(replace(spec, mirror_percent=0, answers_key=""), fence=Fence(1, 2))
    eventually(lambda: not ask(stack, "later").is_error and unmarked(stack, sides))


def unmarked(stack: EnvoyStack, sides: list[RunningWorker]) -> bool:
    """Without a comparison no answer is kept, whatever a client says."""
    asked = ask(stack, "never kept")
    told = sides[0].client.post(
        f"{sides[0].url}{KEPT_PATH}",
        json={"session": "", "after": 0, "ended_for": 0},
        headers={KEEP_HEADER: "a client's"},
    )
    return asked.status_code == 200 and told.json()["answers"] == []
