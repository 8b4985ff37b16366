"""The editor of plans in the console."""

import json
import re

import pytest

from accounts.states import Role
from releases.models import Plan
from tests.releases.browsing import as_person, form_of, text_of
from tests.releases.world import SWIFT, Scene

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_plan_is_made_with_the_editor(scene: Scene) -> None:
    client = as_person("ada", scene)
    answer = client.post("/settings/plans/+new/", form_of(do="save"))
    assert answer["Location"] == "/settings/plans/speech/mine/"
    plan = Plan.objects.get(name="mine")
    assert [step["kind"] for step in plan.body["steps"]] == ["deploy", "weight", "promote"]
    assert plan.body["judge"]["slow"] is None
    body = text_of(client, "/settings/plans/speech/mine/")
    assert "10%" in body
    assert '<dt>Share (%)</dt><dd class="num">100</dd>' in body


def test_what_is_wrong_with_a_plan_stands_at_its_field(scene: Scene) -> None:
    client = as_person("ada", scene)
    answer = client.post("/settings/plans/+new/", form_of(**{"do": "save", "steps.1.percent": "ten"}))
    body = answer.content.decode()
    assert answer.status_code == 422
    slot = body.split('id="steps-1-percent-problem"')[1].split("</span></span>")[0]
    assert "valid integer" in slot
    assert not Plan.objects.filter(name="mine").exists()


def test_steps_are_added_moved_and_removed_without_losing_what_was_typed(scene: Scene) -> None:
    client = as_person("ada", scene)
    added = client.post("/settings/plans/+new/", form_of(do="add", add_kind="hold")).content.decode()
    assert 'name="steps.2.kind" value="hold"' in added
    assert 'name="steps.3.kind" value="promote"' in added
    moved = client.post("/settings/plans/+new/", form_of(do="up:1")).content.decode()
    assert 'name="steps.0.kind" value="weight"' in moved
    assert "no candidate is running yet" in moved
    removed = client.post("/settings/plans/+new/", form_of(do="remove:1")).content.decode()
    assert "steps.2.kind" not in removed


def test_a_preview_tells_the_difference_to_the_saved_plan_in_words(scene: Scene) -> None:
    client = as_person("ada", scene)
    client.post("/settings/plans/+new/", form_of(do="save"))
    preview = client.post(
        "/settings/plans/speech/mine/edit/",
        form_of(**{"steps.1.percent": "20"}),
        headers={"HX-Request": "true", "HX-Target": "preview"},
    ).content.decode()
    assert "step 2 (weight): percent 20 instead of 10" in preview
    assert 'id="steps-1-percent-problem" hx-swap-oob="true"' in preview
    assert "<form" not in preview


def test_a_preview_checks_the_plan_that_is_shown_whatever_button_has_the_focus(scene: Scene) -> None:
    client = as_person("ada", scene)
    headers = {"HX-Request": "true", "HX-Target": "preview"}
    wrong = form_of(**{"do": "up:1", "steps.1.percent": "400"})
    body = client.post("/settings/plans/+new/", wrong, headers=headers).content.decode()
    assert re.search(r'id="steps-1-percent-problem" hx-swap-oob="true"><span class="field-error">', body)


def test_a_plan_can_be_edited_as_json_and_its_faults_have_a_line(scene: Scene) -> None:
    client = as_person("ada", scene)
    broken = client.post("/settings/plans/+new/", {"name": "j", "text": '{"steps": [', "do": "save"})
    assert broken.status_code == 422
    assert "line 1, column" in broken.content.decode()
    made = client.post("/settings/plans/+new/", {"name": "j", "text": json.dumps(SWIFT), "do": "save"})
    assert made.status_code == 302
    assert Plan.objects.get(name="j").body["steps"][3]["percent"] == 30


def test_two_editors_of_one_plan_do_not_overwrite_each_other(scene: Scene) -> None:
    client = as_person("ada", scene)
    client.post("/settings/plans/+new/", form_of(do="save"))
    path = "/settings/plans/speech/mine/edit/"
    first = form_of(**{"do": "save", "revision": "1", "steps.1.percent": "20"})
    assert client.post(path, first).status_code == 302
    second = client.post(path, form_of(**{"do": "save", "revision": "1", "steps.1.percent": "30"}))
    assert second.status_code == 422
    assert "changed by someone else" in second.content.decode()


def test_plans_are_for_their_team_only(scene: Scene) -> None:
    stranger = as_person("eve", scene)
    assert stranger.get("/settings/plans/speech/swift/").status_code == 404
    assert "canary" in text_of(stranger, "/settings/plans/")
    viewer = as_person("vi", scene, Role.VIEWER)
    assert viewer.get("/settings/plans/speech/swift/edit/").status_code == 404
