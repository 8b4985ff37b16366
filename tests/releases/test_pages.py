"""The console's pages of releases, services and plans, over releases that really run (in memory)."""

import json
import re
from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import Membership, User
from accounts.states import Role
from releases.models import Plan, Release, Service
from releases.states import ReleaseState as S
from tests.releases.world import SWIFT, Scene

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch, then=until_it_waits)


def until_it_waits(scene: Scene) -> None:
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)


def as_person(name: str, scene: Scene, role: Role | None = None) -> Client:
    user = User.objects.get_or_create(username=name)[0]
    if role is not None:
        Membership.objects.get_or_create(user=user, team=scene.team, defaults={"role": role})
    client = Client(headers={"Referer": "http://testserver/"})
    client.force_login(user, backend="accounts.login.PasswordBackend")
    return client


def text_of(client: Client, path: str, **headers: str) -> str:
    response = client.get(path, headers=headers)
    assert response.status_code == 200, response.status_code
    return response.content.decode()


def page_of(scene: Scene) -> str:
    return f"/releases/{scene.release.pk}/"


def queries_of(client: Client, path: str) -> int:
    client.get(path)
    with CaptureQueriesContext(
        connection,
    ) as captured:
        client.get(path)
    return len(captured)


def test_who_is_not_signed_in_is_asked_to(scene: Scene) -> None:
    for path in ("/", "/releases/", "/services/", "/settings/plans/", "/services/+new/"):
        assert Client().get(path).status_code == 302


def test_who_is_in_no_team_sees_no_release_and_no_service(waiting: Scene) -> None:
    stranger = as_person("eve", waiting)
    assert stranger.get(page_of(waiting)).status_code == 404
    assert stranger.get(f"/services/{waiting.name}/").status_code == 404
    assert waiting.name not in text_of(stranger, "/releases/")
    assert waiting.name not in text_of(stranger, "/services/")


def test_an_approver_sees_in_one_view_what_changes_why_and_what_the_judge_says(waiting: Scene) -> None:
    body = text_of(as_person("bo", waiting), page_of(waiting))
    release = Release.objects.get(pk=waiting.release.pk)
    for words in ("story:v2", "better", "ada", "Compare files and config", "swift", "evidence-errors-data"):
        assert words in body
    assert f"/releases/{release.pk}/approve/" in body
    assert f"/releases/{release.pk}/reject/" in body
    assert "observed" in body
    assert body.count("an answer") == 3  # the smoke test's


def test_the_requester_is_told_who_else_must_approve(waiting: Scene) -> None:
    Membership.objects.filter(user__username="ada").update(role=Role.APPROVER)
    body = text_of(as_person("ada", waiting), page_of(waiting))
    assert "another person must approve it." in body
    assert "Approvers: bo." in body
    assert "/approve/" not in body


def test_a_viewer_gets_no_buttons_and_no_right_by_asking_for_it(waiting: Scene) -> None:
    viewer = as_person("vi", waiting, Role.VIEWER)
    body = text_of(viewer, page_of(waiting))
    for wish in ("approve", "reject", "pause", "abort"):
        assert f"/{wish}/" not in body
        refused = viewer.post(f"{page_of(waiting)}{wish}/", {"reason": "x"}, headers={"HX-Request": "true"})
        assert refused.status_code == 422
        assert "You may not" in refused.content.decode()
    assert waiting.state() == S.WAITING_APPROVAL


def test_approving_in_the_browser_promotes(waiting: Scene) -> None:
    answer = as_person("bo", waiting).post(f"{page_of(waiting)}approve/", {"reason": "reads well"})
    assert answer.status_code == 302
    waiting.run_until_state(S.PROMOTED)
    body = text_of(as_person("bo", waiting), page_of(waiting))
    assert "reads well" in body
    assert f"/releases/{waiting.release.pk}/rollback/" in body


def test_a_decision_without_a_reason_is_refused_at_the_dialog(waiting: Scene) -> None:
    client = as_person("bo", waiting)
    answer = client.post(f"{page_of(waiting)}approve/", {"reason": "  "}, headers={"HX-Request": "true"})
    assert answer.status_code == 422
    assert "Say why." in answer.content.decode()
    assert answer["HX-Slipway-Refused"] == "1"


def test_rejecting_shows_who_and_why(waiting: Scene) -> None:
    as_person("bo", waiting).post(f"{page_of(waiting)}reject/", {"reason": "too terse"})
    waiting.run_until_state(S.REJECTED)
    body = text_of(as_person("ada", waiting), page_of(waiting))
    assert "Rejected by bo" in body
    assert "too terse" in body


def test_an_unknown_wish_and_an_absurd_number_are_not_found(waiting: Scene) -> None:
    client = as_person("bo", waiting)
    assert client.post(f"{page_of(waiting)}explode/").status_code == 404
    assert client.get(f"/releases/{10**30}/").status_code == 404


def test_a_part_brings_all_that_moves_with_it(waiting: Scene) -> None:
    headers = {"HX-Request": "true", "HX-Target": "now"}
    body = text_of(as_person("bo", waiting), page_of(waiting), **headers)
    assert "<html" not in body
    for moving in ("release-state", "release-actions", "release-lanes", "release-probes", "release-history"):
        assert f'id="{moving}" hx-swap-oob="true"' in body.replace(' aria-label="Traffic"', "").replace(
            ' aria-label="Smoke test"', ""
        ).replace(' aria-label="History"', "")
    assert "evidence-errors-data" not in body  # charts grow by themselves


def test_a_rolled_back_release_says_why_with_its_evidence(scene: Scene) -> None:
    scene.start()
    scene.run_until(lambda: scene.state() == S.RUNNING and scene.release.candidate_percent > 0)
    scene.misbehave(error_share=0.9)
    scene.run_until_state(S.ROLLED_BACK)
    body = text_of(as_person("ada", scene), page_of(scene))
    assert "Rolled back automatically" in body
    assert "Candidate 5xx" in body
    assert "During the analysis." in body


def test_a_gateway_that_is_away_is_no_reason_for_a_page_to_fail(
    waiting: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting.gateway.stop()
    client = as_person("bo", waiting)
    for path in ("/", page_of(waiting), "/releases/", "/services/", f"/services/{waiting.name}/"):
        text_of(client, path)


def test_a_service_shows_where_it_runs_and_how_to_ask_it(waiting: Scene) -> None:
    body = text_of(as_person("ada", waiting), f"/services/{waiting.name}/")
    assert f"/{waiting.name}/v1/chat/completions" in body
    assert body.count("2 of 2 ready") >= 2
    assert "Waiting for approval" in body


def test_a_promoted_release_is_taken_back_from_the_services_history(waiting: Scene) -> None:
    waiting.approve()
    promoted = waiting.run_until_state(S.PROMOTED)
    client = as_person("ada", waiting)
    assert f"/releases/{promoted.pk}/rollback/" in text_of(client, f"/services/{waiting.name}/")
    client.post(f"/releases/{promoted.pk}/rollback/", {"reason": "worse"})
    back = Release.objects.order_by("-pk")[0]
    assert back.undoes_id == promoted.pk
    assert back.version == waiting.v1


def test_a_version_is_released_from_the_service_page(scene: Scene) -> None:
    client = as_person("ada", scene)
    path = f"/services/{scene.name}/release/"
    assert "v2" in text_of(client, path)
    answer = client.post(path, {"version": scene.v2.name, "plan": "swift", "reason": "new"})
    release = Release.objects.get(version=scene.v2)
    assert answer["Location"] == f"/releases/{release.pk}/"
    assert (release.reason, release.plan_name, release.requester) == ("new", "swift", "ada")
    again = client.post(path, {"version": scene.v2.name, "plan": "swift", "reason": "new"})
    assert again.status_code == 422


def test_the_settings_of_a_service_are_kept_from_two_hands(scene: Scene) -> None:
    client = as_person("ada", scene)
    path = f"/services/{scene.name}/settings/"
    given = {
        "engine": "echo", "device": "auto", "replicas": "3", "slots": "4", "plan": "swift", "revision": "1",
        "gpus_per_worker": "2", "engine_tokens": "3", "settings": '{"a": 1}', "alias": "", "description": "",
    }  # fmt: skip
    assert client.post(path, given).status_code == 302
    scene.service.refresh_from_db()
    assert (scene.service.replicas, scene.service.settings) == (3, {"a": 1, "tokens": 3})
    assert scene.service.resources == {"gpus_per_worker": 2}
    late = client.post(path, given)
    assert late.status_code == 422
    assert "changed by someone else" in late.content.decode()
    wrong = client.post(path, given | {"settings": "[1]", "replicas": "0"})
    assert "Give a JSON object" in wrong.content.decode()


def test_a_new_service_is_created_and_a_bad_name_is_refused_at_its_field(scene: Scene) -> None:
    client = as_person("ada", scene)
    given = {
        "name": "Bad Name", "team": scene.team.name, "model": scene.v1.model.name, "version": scene.v1.name,
        "cluster": scene.cluster.name, "engine": "echo", "device": "auto", "replicas": "1", "slots": "4",
        "plan": "canary", "settings": "",
    }  # fmt: skip
    refused = client.post("/services/+new/", given)
    assert refused.status_code == 422
    assert "lower-case letters" in refused.content.decode()
    chosen = client.post("/services/+new/", given | {"choosing": "1", "settings": '{"a": 1}'})
    page = unescape(chosen.content.decode())
    assert '>\n{"a": 1}</textarea>' in page
    made = client.post("/services/+new/", given | {"name": "second"})
    assert made["Location"] == "/services/second/"
    assert Service.objects.get(name="second").created_by == "ada"


def test_all_that_is_wrong_with_a_service_is_told_at_once_at_its_fields(scene: Scene) -> None:
    given = {
        "name": "Bad Name", "team": scene.team.name, "model": scene.v1.model.name, "version": scene.v1.name,
        "cluster": scene.cluster.name, "engine": "vllm", "device": "auto", "replicas": "0", "slots": "4",
        "plan": "canary", "engine_gpu_memory_utilization": "9", "settings": '{"max-model-len": 1,}',
    }  # fmt: skip
    body = unescape(as_person("ada", scene).post("/services/+new/", given).content.decode())
    faults = {
        "id_name_error": "Use 1 to 50 lower-case letters",
        "id_replicas_error": "greater than or equal to 1",
        "id_engine_gpu_memory_utilization_error": "less than or equal to 1",
        "id_settings_error": "Not JSON, line 1, column 21",
    }
    for field, words in faults.items():
        assert re.search(rf'id="{field}">.*{re.escape(words)}', body), field


def test_another_engine_has_other_fields_and_keeps_what_was_typed(scene: Scene) -> None:
    client = as_person("ada", scene)
    path = f"/services/{scene.name}/settings/"
    typed = {"choosing": "1", "engine": "vllm", "slots": "9", "settings": '{"a": '}
    chosen = client.post(path, typed, headers={"HX-Request": "true", "HX-Target": "choices"})
    body = unescape(chosen.content.decode())
    assert 'name="engine_max_model_len"' in body
    assert 'name="engine_token_seconds"' not in body
    assert '{"a": </textarea>' in body
    assert re.search(r'name="slots" value="9"', body)


def test_the_list_is_filtered_by_its_address(waiting: Scene) -> None:
    client = as_person("ada", waiting)
    row = f'href="/releases/{waiting.release.pk}/"'
    assert row in text_of(client, "/releases/?state=waiting_approval")
    assert row in text_of(client, f"/releases/?service={waiting.name}&state=in_motion&q=better")
    assert row not in text_of(client, "/releases/?state=promoted")
    assert "No release matches" in text_of(client, "/releases/?q=nothing-like-it")
    text_of(client, "/releases/?service=none&state=odd&page=x&sort=y")


def test_lists_ask_as_much_for_many_rows_as_for_one(waiting: Scene) -> None:
    client = as_person("bo", waiting)
    before = {path: queries_of(client, path) for path in ("/releases/", "/services/", "/")}
    for number in range(5):
        waiting.service.pk = None
        waiting.service.name = f"more{number}"
        waiting.service.save(force_insert=True)
        release = Release.objects.get(pk=waiting.release.pk)
        release.pk, release.service = None, waiting.service
        release.save(force_insert=True)
    assert {path: queries_of(client, path) for path in before} == before
    assert before["/releases/"] <= 12
    assert before["/services/"] <= 13


def test_a_release_costs_a_fixed_number_of_queries(waiting: Scene) -> None:
    client = as_person("bo", waiting)
    before = queries_of(client, page_of(waiting))
    waiting.run_for(20)
    assert queries_of(client, page_of(waiting)) == before
    assert before <= 24


def test_home_tells_an_approver_what_waits_and_a_viewer_nothing(waiting: Scene) -> None:
    approver = text_of(as_person("bo", waiting), "/")
    assert f'href="/releases/{waiting.release.pk}/#decision"' in approver
    assert "Active releases" in approver
    viewer = text_of(as_person("vi", waiting, Role.VIEWER), "/")
    assert "all caught up" in viewer
    assert waiting.name in viewer


def test_home_says_the_next_step_to_who_begins(db: None) -> None:
    client = Client()
    client.force_login(User.objects.create(username="new"), backend="accounts.login.PasswordBackend")
    assert "No model yet" in text_of(client, "/")


def form_of(**changes: str) -> dict[str, str]:
    """A plan as the editor sends it."""
    given = {
        "name": "mine", "description": "", "steps.0.kind": "deploy", "steps.0.share_percent": "100",
        "steps.0.ready_within_seconds": "60", "steps.1.kind": "weight", "steps.1.percent": "10",
        "steps.2.kind": "promote", "judge.false_roll_back_percent": "5", "judge.false_promote_percent": "10",
        "judge.min_requests": "100", "judge.requests_per_session": "1",
        "judge.abort_above_percent": "50", "judge.abort_min_requests": "20",
        "judge.errors.roll_back_above_ratio": "1", "judge.errors.roll_back_min_percent": "0.1",
        "judge.errors.promote_below_ratio": "2",
    }  # fmt: skip
    return given | changes


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
