"""Environments show which version is where and promote it along an edge; a service is copied elsewhere."""

from datetime import datetime, timedelta

import pytest

from accounts import actors
from accounts.models import Membership, Team, User
from accounts.states import Role
from clusters.models import Cluster
from common.errors import Invalid, NotAllowed
from freezes.errors import Frozen
from freezes.services import create_freeze
from releases.errors import NotPossibleNow
from releases.events import PolicyLowered, ReleaseEnded, ServiceChanged
from releases.freezing import freeze_of
from releases.models import EnvironmentGraph, EnvironmentStage, Release, Service
from releases.selectors.environments import stages_of
from releases.services.environments import copy_service, create_environments, promote
from releases.services.freezing import resume_automation
from releases.services.release import abort, rollback
from releases.states import ReleaseState as S
from releases.subscribers import (
    promote_in_environments,
    promote_what_is_allowed_now,
    promote_what_may_start,
)
from tests.cast import SYSTEM, api, client_of
from tests.clusters.world import version_of
from tests.releases.world import Scene

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


def staged(scene: Scene, *, is_automatic: bool = False) -> EnvironmentGraph:
    """Let v3 serve in staging, before the scene's service, where v1 serves."""
    version_of(scene.team, "story:v2")
    newest = version_of(scene.team, "story:v3")
    staging = copy_service(scene.service, name="staging", cluster=scene.cluster, actor=SYSTEM)
    Release.objects.filter(service=staging).update(state=S.PROMOTED, version=newest, next_at=None)
    Service.objects.filter(pk=staging.pk).update(stable_version=newest, slots=9)
    stages = [
        {"name": "staging", "service": "staging"},
        {"name": "production", "service": scene.name, "is_automatic": is_automatic},
    ]
    return create_environments(actor=SYSTEM, team=scene.team, name="chat", stages=stages)


def test_stages_tell_what_is_ahead_what_drifts_and_what_came_past_them(scene: Scene) -> None:
    staging, production = stages_of(staged(scene))
    assert (staging.depth, staging.upstream, staging.ahead) == (0, None, ())
    assert [one.name for one in production.ahead] == ["v2", "v3"]
    assert production.next_version is not None
    assert (production.next_version.name, production.drift, production.is_foreign) == ("v3", ("slots",), True)


def test_a_promotion_releases_what_the_stage_before_serves_by_the_plan(scene: Scene) -> None:
    graph = staged(scene)
    with pytest.raises(NotPossibleNow):
        promote(graph, stage="staging", actor=scene.requester)
    scene.release = promote(graph, stage="production", actor=scene.requester)
    assert (scene.release.plan_name, scene.release.version.name) == ("swift", "v3")
    scene.run_until_state(S.WAITING_APPROVAL)
    scene.approve()
    scene.run_until_state(S.PROMOTED)
    production = stages_of(graph)[1]
    assert (production.next_version, production.ahead, production.is_foreign) == (None, (), False)


def test_an_automatic_stage_follows_up_to_its_plans_approval_and_keeps_why_it_does_not(scene: Scene) -> None:
    staged(scene, is_automatic=True)
    first = Release.objects.get(service__name="staging")
    promote_in_environments(ReleaseEnded(first.pk, first.service_id, S.PROMOTED))
    scene.release = Release.objects.latest("pk")
    assert scene.release.service == scene.service
    scene.run_until_state(S.WAITING_APPROVAL)
    promote_in_environments(ReleaseEnded(first.pk, first.service_id, S.PROMOTED))
    assert "is being released" in EnvironmentStage.objects.get(name="production").refusal
    promote_in_environments(ReleaseEnded(first.pk, first.service_id, S.ROLLED_BACK))
    graph = EnvironmentGraph.objects.get()
    assert "is being released" in stages_of(graph)[1].refusal
    scene.approve()
    scene.run_until_state(S.PROMOTED)
    assert stages_of(graph)[1].refusal == ""


def test_what_an_automatic_stage_refused_is_released_once_nothing_stands_in_its_way(scene: Scene) -> None:
    staged(scene, is_automatic=True)
    first = Release.objects.get(service__name="staging")
    scene.start(scene.v2, plan_name="swift")
    promote_in_environments(ReleaseEnded(first.pk, first.service_id, S.PROMOTED))
    assert "is being released" in EnvironmentStage.objects.get(name="production").refusal
    abort(scene.release, actor=scene.requester, reason="no")
    scene.run_until_state(S.ABORTED)
    promote_in_environments(ReleaseEnded(scene.release.pk, scene.service.pk, S.ABORTED))
    follower = Release.objects.latest("pk")
    assert (follower.version.name, follower.service) == ("v3", scene.service)
    assert EnvironmentStage.objects.get(name="production").refusal == ""
    rollback(follower, actor=scene.approver, reason="no")
    scene.release = follower
    scene.run_until(lambda: Release.objects.get(pk=follower.pk).state in (S.ROLLED_BACK, S.ABORTED))
    promote_in_environments(ReleaseEnded(first.pk, first.service_id, S.PROMOTED))
    assert "resume its automatic releases" in EnvironmentStage.objects.get(name="production").refusal
    resume_automation(Service.objects.get(pk=scene.service.pk), actor=scene.approver)
    promote_what_may_start(ServiceChanged(scene.service.pk))
    latest = Release.objects.latest("pk")
    assert (latest.pk > follower.pk, latest.version.name) == (True, "v3")


def test_a_promotion_below_the_policy_says_what_to_do_and_starts_once_less_is_demanded(scene: Scene) -> None:
    graph = staged(scene, is_automatic=True)
    Service.objects.filter(pk=scene.service.pk).update(policy={"steps": ["evaluate"]})
    first = Release.objects.get(service__name="staging")
    promote_in_environments(ReleaseEnded(first.pk, first.service_id, S.PROMOTED))
    with pytest.raises(NotPossibleNow) as refused:
        promote(graph, stage="production", actor=SYSTEM, reason="Read a hundred answers.")

    told = EnvironmentStage.objects.get(name="production").refusal
    assert told == str(refused.value)
    assert "It has no step evaluate" in told
    assert told.endswith("or release the version on its page with a bypass.")

    Service.objects.filter(pk=scene.service.pk).update(policy=None)
    promote_what_is_allowed_now(PolicyLowered(0))
    latest = Release.objects.latest("pk")
    assert (latest.version.name, latest.service) == ("v3", scene.service)
    assert EnvironmentStage.objects.get(name="production").refusal == ""


def test_a_graph_that_makes_no_sense_is_refused_with_every_fault(scene: Scene) -> None:
    stages = [
        {"name": "a", "service": scene.name},
        {"name": "a", "service": scene.name, "after": ["z"]},
        {"name": "b", "service": "nowhere"},
    ]
    with pytest.raises(Invalid) as refused:
        create_environments(actor=SYSTEM, team=scene.team, name="chat", stages=stages)
    assert len(refused.value.fields["stages"]) == 3
    stranger = actors.of_user(User.objects.create(username="eve"))
    with pytest.raises(NotAllowed):
        create_environments(actor=stranger, team=scene.team, name="chat", stages=stages)


def test_the_page_promotes(scene: Scene) -> None:
    graph = staged(scene)
    client = client_of(User.objects.get(username="ada"))
    page = client.get("/environments/").content.decode()
    assert "Promote v3 to production?" in page
    client.post(f"/environments/{graph.pk}/production/promote/", {"reason": ""})
    assert Release.objects.latest("pk").version.name == "v3"
    text = f"one: staging\ntwo: {scene.name} < one !"
    client.post("/environments/+new/", {"team": scene.team.name, "name": "again", "stages": text})
    assert [row.is_automatic for row in EnvironmentGraph.objects.get(name="again").stages.all()] == [
        False,
        True,
    ]


def test_a_copy_has_the_settings_and_the_version_of_the_first(scene: Scene) -> None:
    made = copy_service(scene.service, name="elsewhere", cluster=scene.cluster, actor=scene.requester)
    assert (made.engine, made.replicas, made.plan_name) == ("echo", 2, "swift")
    assert Release.objects.get(service=made).version == scene.v1


def test_the_page_of_a_copy_offers_the_clusters_that_one_may_see_and_that_of_the_service(
    scene: Scene,
) -> None:
    Cluster.objects.create(name="hidden", kind=scene.cluster.kind, team=Team.objects.create(name="others"))
    person = User.objects.get(username="ada")
    address = f"/services/{scene.name}/copy/"
    field = client_of(person).get(address).context["form"]["cluster"]
    assert [name for name, _label in field.field.choices] == [scene.cluster.name]
    assert field.initial == scene.cluster.name


def test_stages_are_changed_on_the_page_as_it_shows_them(scene: Scene) -> None:
    graph = staged(scene, is_automatic=True)
    EnvironmentStage.objects.filter(name="production").update(refusal="It is frozen.")
    person = User.objects.get(username="ada")
    Membership.objects.filter(user=person).update(role=Role.ADMIN)
    console, address = client_of(person), f"/environments/{graph.pk}/edit/"
    lines = console.get(address).context["form"].initial["stages"]
    assert lines == f"staging: staging\nproduction: {scene.name}!"
    assert console.post(address, {"stages": lines}).status_code < 400
    assert [one.stage.refusal for one in stages_of(graph)] == ["", "It is frozen."]
    other = f"production: {scene.name}\nstaging: staging <"
    assert console.post(address, {"stages": other}).status_code < 400
    assert [(one.stage.name, one.stage.after) for one in stages_of(graph)] == [
        *(("production", []), ("staging", [])),
    ]
    assert console.post(address, {"stages": "what"}).status_code == 422


def test_a_stage_says_when_a_promotion_would_go_back(scene: Scene) -> None:
    graph = staged(scene)
    _, production = stages_of(graph)
    assert not production.goes_back
    Service.objects.filter(pk=scene.service.pk).update(stable_version=scene.v2)
    Service.objects.filter(name="staging").update(stable_version=scene.v1)
    _, production = stages_of(graph)
    assert production.goes_back
    page = client_of(User.objects.get(username="ada")).get("/environments/").content.decode()
    assert "It is older than v2, which serves there." in page


def frozen(scene: Scene, stage: str) -> datetime:
    """Freeze a stage of all teams for two hours, and return the end."""
    now = scene.clock()
    create_freeze(actor=SYSTEM, team=None, name=f"No {stage}", starts_at=now, minutes=120, stage=stage)
    return now + timedelta(hours=2)


@pytest.mark.parametrize("stage", ["production", "chat/production"])
def test_a_frozen_stage_takes_no_promotion_and_says_until_when(scene: Scene, stage: str) -> None:
    graph = staged(scene)
    until = frozen(scene, stage)
    words = until.strftime("%H:%M:%S")
    with pytest.raises(Frozen, match=words):
        promote(graph, stage="production", actor=scene.requester)
    assert freeze_of(Service.objects.get(name="staging")) is None, "the stage before it goes on"
    person = User.objects.get(username="ada")
    page = client_of(person).get("/environments/").content.decode()
    assert f"No {stage}</a>: frozen until" in page
    shown = api(person).get(f"environments/{graph.pk}/").json()["stages"]
    assert [one["is_frozen"] for one in shown] == [False, True]

    scene.clock.pass_(timedelta(hours=3))
    scene.release = promote(graph, stage="production", actor=scene.requester)
    scene.run_until_state(S.WAITING_APPROVAL)


def test_an_automatic_promotion_into_a_frozen_stage_waits_says_until_when_and_goes_on(scene: Scene) -> None:
    staged(scene, is_automatic=True)
    until = frozen(scene, "production")
    first = Release.objects.get(service__name="staging")
    promote_in_environments(ReleaseEnded(first.pk, first.service_id, S.PROMOTED))
    scene.release = Release.objects.latest("pk")
    scene.run_until_state(S.PAUSED)
    page = client_of(User.objects.get(username="ada")).get(f"/releases/{scene.release.pk}/").content.decode()
    assert until.strftime("%H:%M:%S") in page
    assert scene.release.steps.filter(started_at__isnull=False).count() == 0, "not a step has begun"
    scene.clock.pass_(timedelta(hours=3))
    scene.run_until_state(S.WAITING_APPROVAL)
    assert scene.release.steps.filter(started_at__isnull=False).exists()


def test_a_freeze_of_its_stage_holds_a_promotion_that_is_under_way(scene: Scene) -> None:
    graph = staged(scene)
    scene.release = promote(graph, stage="production", actor=scene.requester)
    scene.run_until_state(S.WAITING_APPROVAL)
    frozen(scene, "staging")
    frozen(scene, "other/production")
    scene.run_for(5)
    assert scene.state() == S.WAITING_APPROVAL
    frozen(scene, "production")
    scene.run_until_state(S.PAUSED)
    scene.clock.pass_(timedelta(hours=3))
    scene.run_until_state(S.WAITING_APPROVAL)
