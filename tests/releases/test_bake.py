"""After a promotion the old workers stay up for a while: a rollback moves only the weight."""

from datetime import timedelta

import pytest

from accounts.errors import RightMissing
from accounts.states import Role
from clusters.models import Deployment
from releases.errors import NotPossibleNow
from releases.models import Release
from releases.services.plan import save_plan
from releases.services.release import end_bake, rollback
from releases.states import ReleaseState as S
from tests.cast import SYSTEM
from tests.releases.world import SWIFT, Scene

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]

MINUTES = 10


def with_a_bake(scene: Scene) -> None:
    body = SWIFT | {"bake_seconds": MINUTES * 60}
    save_plan(actor=SYSTEM, team=scene.team, name="swift", body=body)


def until_it_bakes(scene: Scene) -> None:
    with_a_bake(scene)
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    scene.approve()
    scene.run_until_state(S.PROMOTED)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch, then=with_a_bake)


@pytest.fixture
def baking(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch, then=until_it_bakes)


def warm_until(scene: Scene) -> float | None:
    """Minutes from now."""
    scene.release.refresh_from_db()
    until = scene.release.bake_until
    return None if until is None else (until - scene.clock.at) / timedelta(minutes=1)


def test_the_old_workers_stay_without_traffic_until_the_bake_is_over(baking: Scene) -> None:
    assert warm_until(baking) == pytest.approx(MINUTES, abs=0.1)
    assert baking.split() == {baking.candidate: 500}
    baking.run_for(60)
    assert baking.running(baking.stable) == 2
    baking.clock.pass_(timedelta(minutes=MINUTES))
    baking.run_for(20)
    assert baking.running(baking.stable) == 0
    assert warm_until(baking) is None
    assert baking.release.moves.last().note == "The bake is over: the workers of story:v1 stop."


def test_a_rollback_within_the_bake_starts_no_worker_and_asks_none(baking: Scene) -> None:
    undone, warm = baking.release, baking.stable
    asked, deployments = len(baking.prober.asked), Deployment.objects.count()
    baking.release = rollback(undone, actor=baking.requester, reason="users complain")
    baking.worker().advance("releases.release", baking.release.pk)
    assert baking.state() == S.PROMOTED
    assert baking.split() == {warm: 500}
    assert (len(baking.prober.asked), Deployment.objects.count()) == (asked, deployments)
    undone.refresh_from_db()
    assert undone.bake_until is None
    baking.clock.pass_(timedelta(minutes=MINUTES))
    baking.run_for(20)
    assert baking.running(warm) == 2
    assert baking.running(undone.candidate_deployment) == 0
    baking.service.refresh_from_db()
    assert (baking.service.stable_version, baking.service.stable_deployment) == (baking.v1, warm)


def test_a_rollback_after_the_bake_starts_workers_again(baking: Scene) -> None:
    baking.clock.pass_(timedelta(minutes=MINUTES))
    baking.run_for(20)
    baking.release = rollback(baking.release, actor=baking.requester, reason="users complain")
    assert baking.release.plan_name == "rollback"
    baking.run_until_state(S.PROMOTED)
    assert baking.split() == {baking.candidate: 500}
    assert baking.candidate.endswith(f"-r{baking.release.pk}")


def test_warm_workers_that_failed_are_no_way_back(baking: Scene) -> None:
    failed = baking.stable
    Deployment.objects.filter(name=failed).update(state="failing")
    baking.release = rollback(baking.release, actor=baking.requester, reason="users complain")
    assert baking.release.plan_name == "rollback"
    baking.run_until_state(S.PROMOTED)
    baking.run_for(20)
    assert baking.running(failed) == 0


def test_another_release_ends_the_bake_before_its_own_workers_start(baking: Scene) -> None:
    former, warm = baking.release, baking.stable
    baking.start(baking.v1, plan_name="swift")
    former.refresh_from_db()
    assert former.bake_until == baking.clock.at
    baking.run_for(20)
    assert baking.running(warm) == 0
    assert baking.candidate != warm


def test_a_person_ends_the_bake_at_once(baking: Scene) -> None:
    viewer = baking._person("vi", Role.VIEWER)
    with pytest.raises(RightMissing):
        end_bake(baking.release, actor=viewer)
    end_bake(baking.release, actor=baking.requester, reason="we need the GPUs")
    baking.run_for(20)
    assert baking.running(baking.stable) == 0
    with pytest.raises(NotPossibleNow):
        end_bake(baking.release, actor=baking.requester)


def test_who_ends_the_bake_and_who_rolls_back_do_not_both_get_the_workers(baking: Scene) -> None:
    """Whoever is first: the step that ends them, or the rollback that takes them over."""
    undone, warm = baking.release, baking.stable
    end_bake(undone, actor=baking.requester)
    baking.release = rollback(undone, actor=baking.requester, reason="after all")
    baking.run_until_state(S.PROMOTED)
    assert baking.running(warm) == 2
    undone.refresh_from_db()
    with pytest.raises(NotPossibleNow):
        end_bake(undone, actor=baking.requester)


def test_a_worker_that_was_about_to_end_the_bake_finds_it_taken_over(baking: Scene) -> None:
    undone, warm = baking.release, baking.stable
    end_bake(undone, actor=baking.requester)

    def take_over(name: str) -> None:
        if name == "observed" and not Release.objects.filter(undoes=undone).exists():
            baking.release = rollback(undone, actor=baking.requester, reason="after all")

    slow = baking.worker()
    slow.checkpoint = take_over
    slow.advance("releases.release", undone.pk)
    assert Release.objects.filter(undoes=undone, plan_name="rollback-warm").exists()
    baking.run_until_state(S.PROMOTED)
    assert baking.running(warm) == 2
    assert baking.split() == {warm: 500}


def test_a_first_version_and_a_plan_without_bake_time_keep_nothing_warm(scene: Scene) -> None:
    assert Release.objects.get(service=scene.service).bake_until is None
    save_plan(actor=SYSTEM, team=scene.team, name="swift", body=SWIFT)
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    scene.approve()
    scene.run_until_state(S.PROMOTED)
    assert scene.release.bake_until is None
    scene.run_for(20)
    assert scene.running(scene.stable) == 0
