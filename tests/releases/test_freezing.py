"""Freezes keep releases from starting and advancing; rollbacks and people with the right go on."""

from datetime import timedelta

import pytest

from accounts import actors
from accounts.models import Membership, User
from accounts.states import Role
from common.actor import Actor
from common.errors import NotAllowed
from freezes.errors import Frozen
from freezes.models import Freeze
from freezes.services import create_freeze, remove_freeze, stop_releases
from hubs.services.syncs import create_hub_source, trigger_release
from releases.models import Release
from releases.services.freezing import override_freeze, resume_automation
from releases.services.release import resume, rollback, start_release
from releases.states import ReleaseState
from tests.cast import api
from tests.releases.browsing import as_person, text_of
from tests.releases.world import Scene

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]

S = ReleaseState


def stop(scene: Scene) -> Freeze:
    return stop_releases(actor=scene.approver, team=scene.team, reason="The tokenizer is broken.")


def admin(scene: Scene) -> Actor:
    Membership.objects.filter(user=scene.approver.user_id).update(role=Role.ADMIN)
    return actors.of_user(User.objects.get(pk=scene.approver.user_id))


def test_nothing_starts_while_a_window_holds_and_the_refusal_says_until_when(scene: Scene) -> None:
    now = scene.clock()
    create_freeze(
        actor=scene.approver,
        team=scene.team,
        name="Year end",
        starts_at=now - timedelta(hours=1),
        minutes=180,
        reason="Nobody is here.",
    )
    with pytest.raises(Frozen) as refused:
        scene.start()
    assert (now + timedelta(hours=2)).strftime("%H:%M:%S") in str(refused.value)
    assert "Nobody is here." in str(refused.value)
    scene.clock.pass_(timedelta(hours=3))
    scene.start()


def test_a_window_of_another_service_holds_nothing(scene: Scene) -> None:
    window = {"starts_at": scene.clock(), "minutes": 60, "team": scene.team, "actor": scene.approver}
    create_freeze(name="Others", service="other", **window)
    scene.start()


def test_a_window_that_names_no_service_there_is_says_so(scene: Scene) -> None:
    window = {"starts_at": scene.clock(), "minutes": 60, "team": scene.team, "actor": scene.approver}
    other = create_freeze(name="Others", service="other", **window)
    named = create_freeze(name="Ours", service=scene.name, **window)
    nowhere = create_freeze(name="Stage", stage="production", **window)
    everywhere = create_freeze(name="All", **window)
    rows = api(User.objects.get(username="bo")).get("freezes/").json()["results"]
    assert {row["id"] for row in rows if row["concerns_nothing"]} == {other.pk, nowhere.pk}
    assert {named.pk, everywhere.pk} <= {row["id"] for row in rows}
    page = text_of(as_person("bo", scene), "/releases/freezes/")
    assert page.count("No service is meant by this yet.") == 2


@pytest.mark.every_database
def test_a_stop_holds_a_release_where_it_is_until_it_is_ended(scene: Scene) -> None:
    release = scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    row = stop(scene)
    scene.run_until_state(S.PAUSED)
    share = scene.split(2000)[scene.candidate] / 2000
    assert 0.25 < share < 0.35
    with pytest.raises(Frozen):
        resume(release, actor=scene.requester)

    remove_freeze(row, actor=scene.approver)
    scene.run_until_state(S.WAITING_APPROVAL)
    scene.approve()
    scene.run_until_state(S.PROMOTED)


def test_home_and_the_releases_say_who_has_stopped_them_and_why(scene: Scene) -> None:
    row = stop(scene)
    console = as_person("bo", scene)
    for path in ("/", "/releases/"):
        assert "Releases of team speech are stopped" in text_of(console, path)
        assert "The tokenizer is broken." in text_of(console, path)
    remove_freeze(row, actor=scene.approver)
    assert "are stopped" not in text_of(console, "/") + text_of(console, "/releases/")


def test_no_timeout_runs_while_a_freeze_holds(scene: Scene) -> None:
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    row = stop(scene)
    scene.run_until_state(S.PAUSED)
    scene.clock.pass_(timedelta(seconds=1_200))  # its approval waits 600 s
    remove_freeze(row, actor=scene.approver)
    scene.run_until_state(S.WAITING_APPROVAL)
    scene.run_for(20)
    assert scene.state() == S.WAITING_APPROVAL


def test_an_approval_that_comes_with_the_stop_moves_no_traffic(scene: Scene) -> None:
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    scene.approve()
    stop(scene)
    scene.run_until_state(S.PAUSED)
    scene.run_for(20)
    assert 0.25 < scene.split(2000)[scene.candidate] / 2000 < 0.35


def test_people_roll_back_while_releases_are_stopped(scene: Scene) -> None:
    release = scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    stop(scene)
    scene.run_until_state(S.PAUSED)
    rollback(release, actor=scene.requester, reason="Enough.")
    scene.run_until_state(S.ROLLED_BACK)


def test_a_promoted_release_is_rolled_back_while_releases_are_stopped(scene: Scene) -> None:
    release = scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    scene.approve()
    scene.run_until_state(S.PROMOTED)
    stop(scene)
    release.refresh_from_db()
    back = rollback(release, actor=scene.requester, reason="Enough.")
    scene.release = back
    scene.run_until_state(S.PROMOTED)


def test_an_override_takes_its_right_and_a_reason_and_lets_the_release_go_on(scene: Scene) -> None:
    release = scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    stop(scene)
    scene.run_until_state(S.PAUSED)
    with pytest.raises(NotAllowed):
        override_freeze(release, actor=scene.requester, reason="It mends the tokenizer.")
    override_freeze(release, actor=admin(scene), reason="It mends the tokenizer.")
    scene.run_until_state(S.WAITING_APPROVAL)
    stop(scene)
    scene.run_until_state(S.PAUSED)  # what is made later holds it all the same


def test_a_start_in_spite_of_a_stop_takes_the_right_to_override(scene: Scene) -> None:
    stop(scene)
    with pytest.raises(NotAllowed):
        scene.start(override="Now.")
    release = start_release(
        actor=admin(scene), service=scene.service, version=scene.v2, override="It mends the tokenizer."
    )
    assert release.freeze_override == "It mends the tokenizer."
    page = text_of(as_person("bo", scene), f"/releases/{release.pk}/")
    assert "Freeze overridden" in page
    assert "It mends the tokenizer." in page


def test_after_a_rollback_by_hand_nothing_is_released_by_itself_until_a_person_resumes(scene: Scene) -> None:
    source = create_hub_source(
        actor=scene.requester, model=scene.v2.model, repo_id="acme/story", release_to=scene.name
    )
    scene.v2.source = {"commit": "a" * 40}
    release = scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    rollback(release, actor=scene.requester, reason="It refuses everything.")
    scene.run_until_state(S.ROLLED_BACK)

    assert "ada" in trigger_release(source, scene.v2)
    assert Release.objects.filter(version=scene.v2).count() == 1
    resume_automation(scene.service, actor=scene.requester)
    assert "goes on by release" in trigger_release(source, scene.v2)
