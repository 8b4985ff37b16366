"""A kind of step is one file of `releases.steps`; all else follows from it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from releases import steps
from releases.errors import InvalidPlan
from releases.models import Plan, Release, Service
from releases.pages import plan_fields
from releases.plans import plan, step
from releases.plans.plan import parse_plan, plan_schema
from releases.plans.reference import reference
from releases.plans.words import diff
from releases.states import ReleaseState
from tests.releases.browsing import as_person, form_of, text_of
from tests.releases.world import SWIFT, Scene

NINTH = '''
"""Say something in the history."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from releases.plans.step import StepFault, StepPosition, StepSpec
from releases.reconcilers.base import Executor


class Announce(StepSpec):
    label = "Announce"
    icon = "bell"
    about = "Tell everybody that a release goes on."
    order = 45
    start = {"text": "hear, hear"}

    kind: Literal["announce"] = "announce"
    text: str = Field(title="Announcement", description="Said once.", max_length=80)

    def faults(self, place: StepPosition) -> Iterator[StepFault]:
        if not place.percent:
            yield StepFault("nobody would notice; put a weight step before it", "text")

    def summary(self) -> str:
        return f"announce {self.text}"

    def planned(self) -> str:
        return self.text

    def found(self, progress) -> str:
        return progress.known.get("said", "silence")

    def executor(self):
        return AnnounceExecutor(self)


class AnnounceExecutor(Executor[Announce]):
    name = "announce"

    def settle(self, row, seen, now):
        return self.go_on(row, detail={"said": self.spec.text.upper()})
'''


@pytest.fixture
def ninth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The kind `announce`, as if its file lay beside the others."""
    (tmp_path / "announce.py").write_text(NINTH)
    monkeypatch.setattr(steps, "__path__", [*steps.__path__, str(tmp_path)])
    monkeypatch.setattr(step, "_kinds", dict(step._kinds))

    def look_again() -> None:
        plan.PlanSpec.model_rebuild(force=True)
        plan_fields.definitions.cache_clear()

    steps.load()
    look_again()
    yield
    monkeypatch.undo()
    sys.modules.pop("releases.steps.announce")
    look_again()


def with_ninth(text: str = "here it comes") -> dict:
    others = SWIFT["steps"]
    return {"steps": [*others[:5], {"kind": "announce", "text": text}, *others[5:]]}


def test_a_new_kind_is_in_schema_reference_and_words(ninth: None) -> None:
    assert "Announce" in plan_schema()["$defs"]
    text = reference()
    assert "### `announce`\n\nTell everybody that a release goes on." in text
    assert "| `text` | string |  | Said once. |" in text
    assert text.index("`weight`\n") < text.index("`announce`\n") < text.index("`hold`\n")
    before, after = (parse_plan({"name": "a", **body}) for body in (SWIFT, with_ninth()))
    assert diff(before, after) == ("added step 6: announce here it comes",)
    with pytest.raises(InvalidPlan) as refused:
        parse_plan({"name": "a", "steps": [{"kind": "announce", "text": "!"}, *SWIFT["steps"]]})
    assert [(one.path, one.message) for one in refused.value.problems] == [
        ("steps.0.text", "step 1 (announce): nobody would notice; put a weight step before it")
    ]


@pytest.mark.django_db(transaction=True)
def test_a_new_kind_is_edited_shown_and_executed(ninth: None, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch)
    client = as_person("ada", scene)
    editor = client.post("/settings/plans/+new/", form_of(do="add", add_kind="announce")).content.decode()
    assert '<option value="announce">Announce</option>' in editor
    assert "Tell everybody that a release goes on." in editor
    assert 'name="steps.2.text"' in editor
    assert 'value="hear, hear"' in editor
    Plan.objects.filter(name="swift").update(body={"name": "swift", **with_ninth()})
    assert "here it comes" in text_of(client, "/settings/plans/speech/swift/")
    Service.objects.filter(pk=scene.service.pk).update(plan_name="swift")
    release = scene.start()
    scene.run_until_state(ReleaseState.WAITING_APPROVAL)
    assert "HERE IT COMES" in text_of(client, f"/releases/{release.pk}/")
    scene.approve()
    scene.run_until_state(ReleaseState.PROMOTED)
    said = Release.objects.get(pk=release.pk).steps.get(kind="announce")
    assert (said.state, said.detail["said"]) == ("done", "HERE IT COMES")


def test_two_files_cannot_be_one_kind() -> None:
    with pytest.raises(ValueError, match=r"hold already: releases\.steps\.hold"):
        type("Other", (step.StepSpec,), {"__annotations__": {"kind": str}, "kind": "hold"})
