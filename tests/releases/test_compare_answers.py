"""Both versions answer the same requests before traffic: words in common, refusals, latency, samples."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from releases import answers
from releases.answers import LabelledItem, WorkerAnswer
from releases.comparison import overlap_of, redacted
from releases.models import Release
from releases.services.plan import save_plan
from releases.states import ReleaseState as S
from releases.steps.compare_answers import CompareAnswersStep
from tests.cast import SYSTEM
from tests.releases.browsing import as_person, text_of
from tests.releases.test_quality_steps import keep_set
from tests.releases.world import Scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.any_database]

text = WorkerAnswer
Says = Callable[[int, bool], WorkerAnswer]
"""An answer by the number of the request, and whether the candidate is asked."""


@pytest.fixture
def asked(scene: Scene, tmp_path: Path, settings, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Release]:
    """Start a release whose workers answer forty requests like this."""
    settings.SLIPWAY_STORE_DIR = tmp_path / "models"

    def begin(says: Says, **step: object) -> Release:
        keep_set(scene, tmp_path, [{"prompt": f"{one} is what? Ask ada@example.org"} for one in range(40)])

        class ComparedWorkers:
            def ask_all(
                self, asked: Sequence[tuple[str, str, LabelledItem]], **_: object
            ) -> list[WorkerAnswer]:
                return [says(int(item.prompt.split()[0]), model == "story:v2") for _url, model, item in asked]

        monkeypatch.setattr(answers, "source", ComparedWorkers())
        check = {"kind": "compare_answers", "requests": "tests:v1/items.jsonl", **step}
        steps = [{"kind": "deploy", "share_percent": 100}, check, {"kind": "promote"}]
        save_plan(actor=SYSTEM, team=scene.team, name="alike", body={"steps": steps})
        return scene.start(plan_name="alike")

    return begin


def test_versions_that_answer_alike_pass_and_the_page_shows_the_pairs_that_differ_most(
    scene: Scene, asked: Callable[..., Release]
) -> None:
    def says(one: int, is_candidate: bool) -> WorkerAnswer:
        other = " says ada@example.org" if is_candidate and one == 7 else " apples and pears"
        return WorkerAnswer(f"It is {one}{other}", seconds=0.3 if is_candidate else 0.2)

    release = asked(says, min_overlap_percent=80)
    scene.run_until_state(S.PROMOTED)
    found = release.steps.get(index=1).detail
    assert (found["items"], round(found["same"], 3), found["latency"]) == (40, 0.975, pytest.approx(1.5))
    assert len(found["samples"]) == 10
    assert found["samples"][0]["candidate"] == "It is 7 says ███"
    assert found["figures"] == [], "a release keeps no figure of each request"
    page = text_of(as_person("ada", scene), f"/releases/{release.pk}/")
    assert "It is 7 says ███" in page
    assert "ada@example.org" not in json.dumps(found)


@pytest.mark.parametrize(
    ("says", "step", "why"),
    [
        (lambda one, new: text("Red." if new else "Green."), {"min_overlap_percent": 50}, "Too few"),
        (lambda one, new: text("I cannot." if new and one % 5 == 0 else "Yes."), {}, "refuses at most"),
        (lambda one, new: text("Yes.", seconds=0.9 if new else 0.2), {}, "4.50× stable's time"),
        (lambda one, new: text("", "HTTP 500") if new else text("Yes."), {}, "answered 0 of 40"),
    ],
)  # fmt: skip
def test_a_candidate_that_answers_otherwise_fails(
    scene: Scene, asked: Callable[..., Release], says: Says, step: dict[str, object], why: str
) -> None:
    asked(says, **step)
    assert why in scene.run_until_state(S.FAILED).outcome


def test_words_in_common_and_what_is_hidden() -> None:
    assert overlap_of("A red fox.", "a RED dog") == pytest.approx(2 / 3)
    assert overlap_of("", "") == 1.0
    spec = CompareAnswersStep(requests="tests:v1/items.jsonl")
    assert redacted(spec, "x" * 195 + " 4111111111111111") == "x" * 195 + " ███"
