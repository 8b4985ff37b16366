"""The console's pages of releases, and its lists, over releases that really run (in memory)."""

import re

import pytest
from django.test import Client

from accounts.models import Membership, User
from accounts.states import Role
from clusters.backends.base import FilesFetch, FilesPending
from gateway.models import Gateway
from releases.models import Release
from releases.pages.strip import strip_of
from releases.selectors.plans import plan_of
from releases.states import ReleaseState as S
from slipway.cli.watching import fetch_lines
from tests.cast import api
from tests.releases.browsing import as_person, page_of, queries_of, text_of
from tests.releases.world import Scene

pytestmark = pytest.mark.django_db(transaction=True)


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


def test_who_can_only_look_is_not_asked_to_review(waiting: Scene) -> None:
    seen = {
        name: text_of(as_person(name, waiting, Role.VIEWER), f"/services/{waiting.name}/")
        for name in ("bo", "vi")
    }
    assert [">Review</a>" in seen[name] for name in ("bo", "vi")] == [True, False]
    assert ">View</a>" in seen["vi"]


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


def test_a_step_that_the_analysis_ended_names_the_counts(scene: Scene) -> None:
    scene.start()
    scene.run_until(lambda: scene.state() and scene.release.candidate_percent == 30)
    scene.misbehave(error_share=0.5)
    scene.run_until_state(S.ROLLED_BACK)
    cells = strip_of(scene.release, plan_of(scene.release), list(scene.release.steps.all()))
    [failed] = [cell for cell in cells if cell.state == "failed"]
    assert re.fullmatch(r"5xx \d+ / \d+", failed.detail)


def test_the_analysis_names_its_denominators(waiting: Scene) -> None:
    text = text_of(as_person("bo", waiting), page_of(waiting))
    assert re.search(r"candidate.requests. data-live-as=.count.>\d+</span>", text)


def test_errors_that_nobody_counts_are_named(waiting: Scene) -> None:
    words = "Errors of the gateway itself (503"
    assert words not in text_of(as_person("bo", waiting), page_of(waiting))
    Gateway.objects.update(metrics="workers")
    assert words in text_of(as_person("bo", waiting), page_of(waiting))
    user = User.objects.get(username="bo")
    document = api(user).get(f"/api/v1/releases/{waiting.release.pk}/").json()
    assert document["not_counted"].startswith(words)


def test_a_gateway_that_is_away_is_no_reason_for_a_page_to_fail(
    waiting: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting.gateway.stop()
    client = as_person("bo", waiting)
    for path in ("/", page_of(waiting), "/releases/", "/services/", f"/services/{waiting.name}/"):
        text_of(client, path)


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
    assert before <= 34


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


def test_a_release_shows_how_far_the_candidates_files_have_come(scene: Scene) -> None:
    come = FilesFetch(
        place="gpu-7", come_bytes=4_000_000_000, size_bytes=15_000_000_000, bytes_per_second=500_000_000
    )

    def still_coming(_version: object) -> None:
        raise FilesPending("The files are on their way.", (come,))

    scene.world.bring_files = still_coming
    scene.start()
    scene.run_for(5)
    body = text_of(as_person("ada", scene), page_of(scene))
    assert "Model files on gpu-7" in body
    assert "4.00\u00a0GB of 15.0\u00a0GB" in body
    assert "500\u00a0MB/s" in body
    told = as_person("ada", scene).get(f"/api/v1/releases/{scene.release.pk}/").json()
    assert told["fetches"] == [
        {
            "place": "gpu-7",
            "come_bytes": 4_000_000_000,
            "size_bytes": 15_000_000_000,
            "bytes_per_second": 500_000_000,
            "problem": "",
            "left_seconds": 22,
        }
    ]
    assert "model files on gpu-7: 26 % of 15.00 GB, 500.0 MB/s, 22 s left" in "\n".join(fetch_lines(told))
    scene.world.bring_files = lambda _version: None
    scene.run_until(lambda: scene.state() is S.WAITING_APPROVAL)
    assert "Model files on gpu-7" not in text_of(as_person("ada", scene), page_of(scene))
