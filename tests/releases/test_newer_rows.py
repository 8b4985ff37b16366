"""Rows that a newer release of Slipway wrote, on the pages of this one while both run."""

import pytest

from accounts.models import User
from accounts.states import Role
from clusters.models import Deployment, Node
from releases.models import Release, ReleaseStep
from tests.cast import api
from tests.releases.browsing import as_person, page_of, text_of
from tests.releases.world import Scene

pytestmark = pytest.mark.django_db(transaction=True)

LATER = {"kind": "announce", "channel": "#releases"}


def newer(scene: Scene, state: str = "announcing") -> Release:
    """The release stands at a step of a kind that nobody here knows, in states that nobody here knows."""
    release = Release.objects.get(pk=scene.release.pk)
    plan = release.plan
    plan["steps"][release.step_index] = LATER
    Release.objects.filter(pk=release.pk).update(state=state, plan=plan, phase="told half of them")
    steps = ReleaseStep.objects.filter(release=release, index=release.step_index)
    steps.update(kind="announce", state="simmering")
    return Release.objects.get(pk=release.pk)


@pytest.fixture
def pages(waiting: Scene) -> list[str]:
    return [
        "/",
        "/releases/",
        page_of(waiting),
        "/services/",
        f"/services/{waiting.name}/",
        "/search/?q=story",
    ]


def test_every_page_shows_a_state_and_a_step_of_a_newer_release_by_their_names(
    waiting: Scene, pages: list[str]
) -> None:
    release = newer(waiting)
    Deployment.objects.update(state="hibernating")
    Node.objects.update(state="asleep")
    for halt in ("", "withdraw"):
        Release.objects.filter(pk=release.pk).update(halt=halt)
        for browser in (as_person("bo", waiting), as_person("ada", waiting)):
            for path in pages:
                answer = browser.get(path)
                assert answer.status_code == 200, path
            body = text_of(browser, page_of(waiting))
            assert "Announcing" in body
            assert "unknown to this version of Slipway" in body
    rest = api(User.objects.get(username="ada"))
    assert rest.get(f"releases/{release.pk}/").json()["state"] == "announcing"
    assert rest.get("releases/").json()["results"][0]["state"] == "announcing"
    assert rest.get(f"services/{waiting.name}/").status_code == 200


def test_what_is_asked_of_a_release_in_an_unknown_state_is_refused_in_words(waiting: Scene) -> None:
    newer(waiting)
    operator = as_person("olga", waiting, Role.OPERATOR)
    body = operator.get(page_of(waiting)).content.decode()
    for wish in ("approve", "pause", "abort", "rollback", "resume"):
        assert f"{page_of(waiting)}{wish}/" not in body
        answer = operator.post(
            f"{page_of(waiting)}{wish}/", {"reason": "Why not"}, headers={"HX-Request": "true"}
        )
        assert answer.status_code == 422, wish
    assert "unknown to this version of Slipway" in answer.content.decode()
    answer = api(User.objects.get(username="ada")).post(
        "releases/",
        {"service": waiting.name, "version": str(waiting.v2), "plan": "canary", "reason": "again"},
    )
    assert answer.status_code == 409
    assert "announcing, which is unknown to this version of Slipway" in answer.json()["detail"]
    assert Release.objects.count() == 2
    assert Release.objects.get(pk=waiting.release.pk).halt == ""


def test_it_is_left_to_who_knows_it_without_an_attempt(waiting: Scene) -> None:
    for state, halt in (("announcing", ""), ("waiting_approval", "withdraw")):
        newer(waiting, state)
        Release.objects.filter(pk=waiting.release.pk).update(next_at=waiting.clock(), halt=halt)
        waiting.run_for(10)
        release = Release.objects.get(pk=waiting.release.pk)
        assert (release.state, release.attempts, release.stuck_at) == (state, 0, None)
