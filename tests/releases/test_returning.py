"""Any version that served before can be returned to, as far as the release policy lets steps be skipped."""

from datetime import timedelta

import pytest

from accounts.models import User
from models_registry.models import Version
from models_registry.states import VersionState
from releases.errors import NotPossibleNow, NotReleasable
from releases.judge.burn import ErrorCount, burn_of, recent
from releases.models import Release, Service
from releases.services.plan import save_plan
from releases.services.policy import set_team_policy
from releases.services.returning import former_versions, return_to
from releases.states import ReleaseState as S
from tests.cast import SYSTEM, client_of
from tests.clusters.world import version_of
from tests.releases.world import SWIFT, Scene

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


def release_all(scene: Scene) -> None:
    """Have v2, then v3 serve after v1."""
    scene.v3 = version_of(scene.team, "story:v3")
    for version in (scene.v2, scene.v3):
        scene.start(version)
        scene.run_until_state(S.WAITING_APPROVAL)
        scene.approve()
        scene.run_until_state(S.PROMOTED)


@pytest.fixture
def third(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch, then=release_all)


def returned(scene: Scene, version: Version) -> Release:
    service = Service.objects.get(pk=scene.service.pk)
    scene.release = return_to(service, version=version, actor=scene.requester, reason="v3 swears.")
    return scene.release


def test_the_first_version_comes_back_with_its_files_brought_and_without_canary(third: Scene) -> None:
    service = Service.objects.get(pk=third.service.pk)
    assert [one.version.name for one in former_versions(service)] == ["v2", "v1"]
    release = returned(third, third.v1)
    third.run_until_state(S.PROMOTED)
    assert [step.kind for step in release.steps.all()] == [
        "scan",
        "prefetch",
        "deploy",
        "smoke_test",
        "promote",
    ]
    assert Service.objects.get(pk=third.service.pk).stable_version == third.v1
    assert Service.objects.get(pk=third.service.pk).automation_paused_by == "ada"


def test_an_older_version_takes_the_service_s_plan_where_the_policy_says_so(third: Scene) -> None:
    set_team_policy(actor=SYSTEM, team=third.team, policy={"return_within_days": 7})
    third.clock.pass_(timedelta(days=8))
    Release.objects.filter(service=third.service, version=third.v2).update(ended_at=third.clock.at)
    release = returned(third, third.v1)
    assert release.plan_name == "return"
    third.run_until_state(S.PROMOTED)
    Release.objects.filter(service=third.service).update(
        ended_at=third.clock.at - timedelta(days=30), created_at=third.clock.at - timedelta(days=30)
    )
    assert returned(third, third.v2).plan_name == "swift"


def test_a_version_that_is_gone_serves_or_never_served_is_refused(third: Scene) -> None:
    with pytest.raises(NotPossibleNow, match="story:v3 serves"):
        returned(third, third.v3)
    with pytest.raises(NotPossibleNow, match="has never served"):
        returned(third, version_of(third.team, "story:v4"))
    Version.objects.filter(pk=third.v1.pk).update(state=VersionState.ARCHIVED)
    with pytest.raises(NotReleasable, match="kept no longer"):
        returned(third, third.v1)


def test_the_page_shows_the_difference_and_starts_the_return(third: Scene) -> None:
    client = client_of(User.objects.get(pk=third.requester.user_id))
    address = f"/services/{third.name}/return/"
    page = client.get(f"{address}?version=v1").content.decode()
    assert "v1 instead of v3" in page
    assert "approval by an approver" in page
    assert client.post(address, {"version": "v1", "reason": ""}).status_code == 422
    client.post(address, {"version": "v1", "reason": "v3 swears."})
    assert Release.objects.latest("pk").version == third.v1


def bake_with_an_objective(scene: Scene) -> None:
    body = SWIFT | {"bake_seconds": 600, "bake_objective_percent": 99.0}
    save_plan(actor=SYSTEM, team=scene.team, name="swift", body=body)
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    scene.approve()
    scene.run_until_state(S.PROMOTED)


def test_a_promoted_version_that_burns_the_error_budget_is_rolled_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(monkeypatch, then=bake_with_an_objective)
    promoted = scene.release
    scene.run_for(60)
    assert not Release.objects.filter(undoes=promoted).exists()
    scene.misbehave(error_share=0.3)
    scene.run_until(lambda: Release.objects.filter(undoes=promoted).exists(), seconds=120)
    scene.release = Release.objects.get(undoes=promoted)
    assert scene.release.plan_name == "rollback-warm"
    assert "times as fast as its objective of 99 % allows" in scene.release.reason
    scene.run_until_state(S.PROMOTED)
    assert Service.objects.get(pk=scene.service.pk).stable_version == scene.v1


def test_a_burn_must_matter_and_go_on() -> None:
    def counts(*stretches: tuple[int, int]) -> list[ErrorCount]:
        found, requests, errors = [ErrorCount(0, 0, 0)], 0, 0
        for number, (asked, failed) in enumerate(stretches, 1):
            requests, errors = requests + asked, errors + failed
            found.append(ErrorCount(number * 30.0, requests, errors))
        return found

    def burns(*stretches: tuple[int, int]) -> bool:
        return burn_of(counts(*stretches), objective_percent=99.9, most_rate=14.4) is not None

    assert burns(*[(100, 5)] * 10)
    assert not burns(*[(100, 1)] * 10)
    assert not burns((100, 50), *[(100, 0)] * 9)
    assert not burns((10, 3))
    kept = recent(counts(*[(1, 0)] * 20), now=600.0)
    assert (kept[0].at, len(kept)) == (300.0, 11)
