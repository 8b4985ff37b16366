"""A plan can compare the candidate's answers to copies of real requests with those that clients got."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from gateway.models import answers_key
from releases import kept_answers
from releases.comparison import ComparedAnswer
from releases.kept_answers import KeptLook, KeptPair, shown_of, text_of
from releases.models import Release
from releases.services.plan import save_plan
from releases.services.release import abort
from releases.states import ReleaseState as S
from tests.cast import SYSTEM
from tests.releases.browsing import as_person
from tests.releases.browsing import text_of as words_of
from tests.releases.world import Scene

pytestmark = pytest.mark.django_db(transaction=True)

Says = Callable[[int], ComparedAnswer]
"""The candidate's answer by the number of the request; stable says `It is 7 apples`."""


def said(words: str, **more: Any) -> ComparedAnswer:
    return ComparedAnswer(words, **{"seconds": 0.2, "worker_seconds": 0.1, **more})


@pytest.fixture
def shadowed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Release]:
    """Start a release whose candidate answers copies like this, five at each look."""

    def begin(says: Says, **step: object) -> Release:
        class ShadowedWorkers:
            asked = 0

            def look(
                self,
                key: str,
                *_: Sequence[Any],
                marks: Mapping[str, Sequence[Any]],
                used: Sequence[str],
            ) -> KeptLook:
                """Answer under the key of the route alone, and on from the mark, as workers do."""
                spec = scene.gateway.desired_route(scene.name)
                if spec is None or spec.answers_key != key:
                    return KeptLook()
                done = int(marks.get("w", ("", 0))[1])
                assert len(used) == done
                numbers = range(done, done + 5)
                pairs = [
                    KeptPair(f"{one} is what? Ask ada@example.org", says(one), said(f"It is {one} apples"))
                    for one in numbers
                ]
                return KeptLook(pairs, 1, [f"s:{one}" for one in numbers], {"w": ("s", done + 5)})

        monkeypatch.setattr(kept_answers, "source", ShadowedWorkers())
        shadow = {"kind": "shadow", "percent": 20, "seconds": 20, **step}
        steps = [{"kind": "deploy", "share_percent": 100}, shadow, {"kind": "promote"}]
        save_plan(actor=SYSTEM, team=scene.team, name="shadow", body={"steps": steps})
        return scene.start(plan_name="shadow")

    return begin


def test_real_requests_are_compared_while_clients_get_stables_answers_alone(
    scene: Scene, shadowed: Callable[..., Release]
) -> None:
    def says(one: int) -> ComparedAnswer:
        more = "pears for ada@example.org" if one == 7 else "apples"
        return said(f"It is {one} {more}", seconds=0.3, worker_seconds=0.15)

    release = shadowed(says, min_overlap_percent=80)
    scene.run_until(lambda: bool(key_of(scene)))
    assert key_of(scene) == answers_key(scene.name, scene.release.candidate_deployment)
    assert set(scene.split(50)) == {scene.stable}
    scene.run_until_state(S.PROMOTED)
    assert key_of(scene) == "", "no answer is kept any more"
    found = release.steps.get(index=1).detail
    assert found["items"] >= 20
    assert (found["latency"], round(found["cost"], 3)) == (pytest.approx(1.5), 1.5)
    assert found["copies"] > found["items"]
    assert found["samples"][0]["candidate"] == "It is 7 pears for ███"
    assert (found["figures"], found["used"], found["marks"]) == ([], [], {})
    assert "ada@example.org" not in json.dumps(found), "people's data is in no row"
    page = words_of(as_person("ada", scene), f"/releases/{release.pk}/")
    assert "It is 7 pears for ███" in page


def key_of(scene: Scene) -> str:
    spec = scene.gateway.desired_route(scene.name)
    return spec.answers_key if spec else ""


@pytest.mark.parametrize(
    ("says", "step", "why"),
    [
        (lambda one: said("Green."), {"min_overlap_percent": 50}, "Too few words"),
        (lambda one: said(f"It is {one} apples", has_failed=one % 5 == 0), {}, "refuses at most"),
        (lambda one: said("It is", worker_seconds=0.3), {"max_cost_ratio": 2}, "3.00× the time of workers"),
    ],
)  # fmt: skip
def test_a_candidate_that_answers_copies_otherwise_fails_and_gets_no_more_of_them(
    scene: Scene, shadowed: Callable[..., Release], says: Says, step: dict[str, object], why: str
) -> None:
    shadowed(says, **step)
    assert why in scene.run_until_state(S.FAILED).outcome
    spec = scene.gateway.desired_route(scene.name)
    assert spec is not None
    assert (spec.mirror_percent, spec.answers_key) == (0, "")


def test_without_enough_pairs_it_fails_or_goes_on_as_the_plan_says(
    scene: Scene, shadowed: Callable[..., Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    shadowed(lambda one: said("x"), on_too_few="continue")
    monkeypatch.setattr(kept_answers.source, "look", lambda *_, **__: KeptLook(unpaired=3))
    assert "0 were answered by both" in scene.run_until_state(S.PROMOTED).steps.get(index=1).detail["note"]


def test_too_few_pairs_to_judge_refusals_fail_it_or_not_as_the_plan_says(
    scene: Scene, shadowed: Callable[..., Release]
) -> None:
    shadowed(lambda one: said(f"It is {one} apples", has_failed=one % 25 == 24), on_too_few="continue")
    found = scene.run_until_state(S.PROMOTED).steps.get(index=1).detail
    assert "Too few requests to show that it refuses at most 5.0% more" in found["note"]
    assert found["needed"] > found["items"]


def test_an_abort_ends_the_copies_and_the_keeping(scene: Scene, shadowed: Callable[..., Release]) -> None:
    shadowed(lambda one: said("x"))
    scene.run_until(lambda: bool(key_of(scene)))
    abort(scene.release, actor=scene.requester, reason="no")
    scene.run_until_state(S.ABORTED)
    assert key_of(scene) == ""


def test_answers_are_read_in_every_shape_that_openai_has() -> None:
    chunks = [{"choices": [{"delta": {"content": one}}]} for one in ("It ", "is.")]
    streamed = "".join(f"data: {json.dumps(one)}\n\n" for one in chunks) + "data: [DONE]\n\n"
    assert text_of(streamed) == "It is."
    assert text_of(json.dumps({"choices": [{"message": {"content": "Yes"}}]})) == "Yes"
    assert text_of(json.dumps({"choices": [{"text": "Yes"}]})) == "Yes"
    deltas = [{"type": "response.output_text.delta", "delta": "Ye"}, {"type": "response.completed"}]
    assert text_of("".join(f"event: x\ndata: {json.dumps(one)}\n\n" for one in deltas)) == "Ye"
    assert text_of('{"total": 12.0}') == '{"total": 12.0}'
    chat = {"messages": [{"role": "user", "content": "Who?"}]}
    assert shown_of({"path": "/v1/chat/completions", "request": json.dumps(chat)}) == "Who?"
    assert shown_of({"path": "/detect", "request": "[1]"}) == "/detect [1]"
