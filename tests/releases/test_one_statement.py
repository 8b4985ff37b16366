"""What a release says of itself is the same everywhere: its steps, its split, its analysis, its times."""

import re
from typing import Any

import pytest

from common.pages.badges import badge_of
from releases.models import Release
from releases.pages import strip
from releases.pages.values import release_values
from releases.selectors.plans import plan_of
from releases.selectors.releases import weights
from releases.services.approval import reject
from releases.services.plan import save_plan
from releases.services.release import abort
from releases.states import ReleaseState as S
from tests.releases.browsing import as_person, page_of, text_of
from tests.releases.world import SWIFT, Scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.any_database]


def cells(release: Release) -> dict[str, Any]:
    shown = strip.strip_of(release, plan_of(release), list(release.steps.all()))
    return {str(cell.name): cell for cell in shown}


def states(release: Release) -> list[str]:
    return list(release.steps.values_list("state", flat=True))


def test_an_aborted_release_says_where_it_was_aborted_and_what_never_ran(scene: Scene) -> None:
    scene.start()
    scene.run_until(lambda: scene.state() == S.RUNNING and scene.release.candidate_percent > 0)
    abort(scene.release, actor=scene.requester, reason="wrong version")
    release = scene.run_until_state(S.ABORTED)

    # The weight itself is still waiting for its measured split.
    assert states(release) == ["done", "done", "done", "aborted", *["not_run"] * 4]
    shown = cells(release)
    assert (shown["30%"].state, shown["Promote"].state) == ("aborted", "not_run")
    assert shown["Promote"].detail == ""


def test_a_rejected_release_says_so_at_its_approval(scene: Scene) -> None:
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    reject(scene.release, actor=scene.approver, reason="too terse")
    release = scene.run_until_state(S.REJECTED)

    assert (cells(release)["Approval"].state, cells(release)["Approval"].actor) == ("rejected", "bo")


@pytest.mark.parametrize("end", ["abort", "promote"])
def test_no_clock_runs_on_after_the_end(scene: Scene, end: str) -> None:
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    if end == "abort":
        abort(scene.release, actor=scene.requester, reason="enough")
    else:
        scene.approve()
    scene.run_until_state(S.ABORTED, S.PROMOTED)
    headers = {"HX-Request": "true", "HX-Target": "now"}
    body = text_of(as_person("bo", scene), page_of(scene), **headers)

    assert 'id="release-brief" hx-swap-oob="true"' in re.sub(r' aria-label="[^"]*"', "", body)
    assert "data-elapsed" not in body


def test_the_strip_the_page_and_rest_give_the_same_verdict_after_the_judges_step(scene: Scene) -> None:
    """The step ended inconclusive; the analysis went on while the approval waited, and passed."""
    scene.start()
    release = scene.run_until_state(S.WAITING_APPROVAL)
    judge = next(step for step in release.steps.all() if step.kind == "judge")
    assert judge.detail["verdict"]["decision"] == "insufficient"
    scene.run_until(lambda: release_values(_fresh(release), None)["judge.decision"] == "promote")

    release = _fresh(release)
    assert cells(release)["Analysis"].detail == str(badge_of("verdict", "promote").word).lower()
    body = text_of(as_person("bo", scene), page_of(scene))
    assert '<span data-choice="promote">' in body
    assert (
        "inconclusive"
        not in body.replace('data-choice="insufficient"', "").split('id="now"')[1].split("</ol>")[0]
    )


def test_a_weight_shows_the_split_measured_at_that_weight_wherever_it_was_measured(scene: Scene) -> None:
    steps = [
        *SWIFT["steps"][:3],
        {"kind": "weight", "percent": 10},
        {"kind": "hold", "seconds": 3},
        {"kind": "weight", "percent": 50},
        {"kind": "judge", "at_most_seconds": 5, "on_insufficient": "ask"},
        *SWIFT["steps"][-2:],
    ]
    save_plan(actor=scene.requester, team=scene.team, name="two", body={"steps": steps})
    scene.start(plan_name="two")
    release = scene.run_until_state(S.WAITING_APPROVAL)
    ten, fifty = (row for row in release.steps.all() if row.kind == "weight")
    assert fifty.detail["observed_percent"] == pytest.approx(50, abs=15)
    assert ten.detail["observed_percent"] == pytest.approx(10, abs=9)
    shown = cells(release)

    assert float(shown["10%"].detail.partition("%")[0]) == pytest.approx(10, abs=9)
    assert float(shown["50%"].detail.partition("%")[0]) == pytest.approx(50, abs=15)

    abort(release, actor=scene.requester, reason="enough")
    ended = scene.run_until_state(S.ABORTED)
    assert weights(ended)["observed"]["candidate"] is None  # nothing is measured at 0 %


def test_a_release_without_a_canary_says_that_there_is_no_analysis(scene: Scene) -> None:
    scene.start(plan_name="direct")
    assert release_values(scene.release, None)["judge.decision"] == "never"
    release = scene.run_until_state(S.PROMOTED)
    assert release_values(release, None)["judge.decision"] == "never"
    assert '<span data-choice="never">' in text_of(as_person("bo", scene), page_of(scene))


def _fresh(release: Release) -> Release:
    return Release.objects.select_related("service").get(pk=release.pk)
