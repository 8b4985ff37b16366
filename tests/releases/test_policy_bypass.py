"""Every way round the release policy: closed, or open to a right and a reason, and then an event."""

from typing import Any

import pytest
from django.contrib import admin

from accounts import actors
from accounts.errors import RightMissing
from accounts.models import Membership, User, WebhookEvent
from accounts.services.teams import set_role
from accounts.services.webhooks import create_webhook
from accounts.states import AccountKind, Right, Role
from common.actor import Actor
from common.admin import ReadOnly
from common.errors import Invalid
from common.models import AuditRecord
from hubs.services.syncs import create_hub_source, trigger_release
from models_registry.services.aliases import set_alias
from releases.errors import (
    BelowPolicy,
    BypassReasonMissing,
    InvalidPlan,
    NotPossibleNow,
    UnknownPlan,
)
from releases.models import Plan, Release, Service
from releases.plans.builtin import builtin_plans
from releases.selectors.plans import policy_of
from releases.services.approval import approve
from releases.services.plan import delete_plan, save_plan
from releases.services.policy import set_team_policy
from releases.services.release import rollback, start_release
from releases.services.service import change_service, create_service
from releases.states import ReleaseState as S
from tests.cast import SYSTEM, Api, api, token_of
from tests.releases.browsing import as_person, text_of
from tests.releases.world import SWIFT, Scene

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]

HASTY: dict[str, Any] = {"steps": [{"kind": "deploy", "replicas": 1}, {"kind": "promote"}]}


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A service whose plan asks for a judge and for an approval by another person; ada is a developer."""
    return Scene(monkeypatch)


@pytest.fixture
def boss(scene: Scene) -> Actor:
    return scene._person("cleo", Role.ADMIN)


def user_of(actor: Actor) -> User:
    return User.objects.get(pk=actor.user_id)


def start(scene: Scene, plan_name: str) -> Release:
    return start_release(actor=scene.requester, service=scene.service, version=scene.v2, plan_name=plan_name)


def nothing_started(scene: Scene) -> bool:
    return not Release.objects.filter(service=scene.service, version=scene.v2).exists()


@pytest.mark.parametrize("plan", ["direct", "canary-quick"])
def test_a_developer_cannot_release_by_a_laxer_plan_over_rest(scene: Scene, plan: str) -> None:
    ada = api(user_of(scene.requester))
    body = {"service": scene.name, "version": "v2", "plan": plan, "bypass": "it is urgent"}
    answer = ada.post("releases/", body)
    assert answer.status_code == 403
    assert "approval by another person than the requester" in answer.json()["detail"]
    assert "releases.bypass" in answer.json()["detail"]
    assert nothing_started(scene)


def test_a_developer_cannot_release_by_a_laxer_plan_on_the_page(scene: Scene) -> None:
    ada = as_person("ada", scene)
    form = {"version": "v2", "plan": "direct", "reason": "urgent", "bypass": "urgent"}
    answer = ada.post(f"/services/{scene.name}/release/", form)
    assert answer.status_code == 422
    assert "falls short" in answer.content.decode()
    assert nothing_started(scene)


def test_who_may_bypass_must_say_why_and_everybody_sees_it(scene: Scene, boss: Actor) -> None:
    create_webhook(actor=SYSTEM, url="https://hooks.example.org/", team=scene.team)
    cleo = api(user_of(boss))
    body = {"service": scene.name, "version": "v2", "plan": "direct"}
    refused = cleo.post("releases/", body)
    assert refused.status_code == 400
    assert "bypass" in str(refused.json()["errors"])
    assert nothing_started(scene)
    answer = cleo.post("releases/", body | {"bypass": "the leak must stop"}).json()
    assert answer["bypassed"]["reason"] == "the leak must stop"
    assert answer["bypassed"]["lacks"] == [
        "It asks for no approval by another person than the requester.",
        "It has no analysis step.",
    ]
    record = AuditRecord.objects.get(action="release.bypass")
    assert (record.actor, record.reason) == ("cleo", "the leak must stop")
    assert WebhookEvent.objects.filter(type="release.bypassed").count() == 1
    page = text_of(as_person("bo", scene), f"/releases/{answer['id']}/")
    assert "the leak must stop" in page
    assert "It has no analysis step." in page


def test_a_bypass_that_is_not_needed_is_none(scene: Scene, boss: Actor) -> None:
    release = start_release(actor=boss, service=scene.service, version=scene.v2, bypass="just in case")
    assert (release.shortfalls, release.bypass_reason) == ([], "")
    assert not AuditRecord.objects.filter(action="release.bypass").exists()


def test_a_token_bypasses_nothing_without_the_scope(scene: Scene, boss: Actor) -> None:
    scopes = {Right.READ, Right.RELEASES_START, Right.RELEASES_OPERATE}
    cleo = Api(token_of(user_of(boss), scopes=scopes))
    body = {"service": scene.name, "version": "v2", "plan": "direct", "bypass": "now"}
    answer = cleo.post("releases/", body)
    assert answer.status_code == 403
    assert "scope releases.bypass" in answer.json()["detail"]
    assert nothing_started(scene)


def test_a_plan_of_ones_own_without_approval_is_no_way_round(scene: Scene) -> None:
    save_plan(actor=scene.requester, team=scene.team, name="hasty", body=HASTY)
    with pytest.raises(BelowPolicy):
        start(scene, "hasty")
    assert nothing_started(scene)


def test_the_plan_of_a_service_is_not_loosened_without_right_and_reason(scene: Scene, boss: Actor) -> None:
    loosen = {"team": scene.team, "name": "swift", "body": HASTY}
    with pytest.raises(BelowPolicy, match="would no longer demand an approval by another person"):
        save_plan(actor=scene.requester, **loosen)
    body = {"body": HASTY, "reason": "because"}
    assert api(user_of(scene.requester)).put("plans/swift/", body).status_code == 403
    with pytest.raises(BypassReasonMissing):
        save_plan(actor=boss, **loosen)
    assert Plan.objects.get(name="swift").body["steps"][0]["kind"] == "scan"
    save_plan(actor=boss, **loosen, reason="a toy by now")
    assert AuditRecord.objects.get(action="policy.lower").reason == "a toy by now"


def test_a_plan_that_is_loosened_step_by_step_is_compared_each_time(scene: Scene) -> None:
    """Seconds may change freely; what counts may not."""
    faster = [step | ({"seconds": 1} if step["kind"] == "hold" else {}) for step in SWIFT["steps"]]
    save_plan(actor=scene.requester, team=scene.team, name="swift", body={"steps": faster})
    for change in ({"separate_requester": False}, {"when": "unless_certified"}):
        steps = [step | (change if step["kind"] == "approval" else {}) for step in faster]
        with pytest.raises(BelowPolicy):
            save_plan(actor=scene.requester, team=scene.team, name="swift", body={"steps": steps})


def test_a_plan_in_use_is_not_deleted_to_be_written_anew(scene: Scene) -> None:
    with pytest.raises(NotPossibleNow, match="Services use this plan"):
        delete_plan(Plan.objects.get(name="swift"), actor=scene.requester)


@pytest.mark.parametrize("name", builtin_plans())
def test_no_plan_takes_the_name_of_a_built_in_one(scene: Scene, name: str) -> None:
    with pytest.raises(InvalidPlan, match="built in"):
        save_plan(actor=scene.requester, team=scene.team, name=name, body=HASTY)


def test_a_plan_of_another_team_is_none(scene: Scene) -> None:
    other = Membership.objects.create(
        user=user_of(scene.requester), team=scene.team.__class__.objects.create(name="play"), role="developer"
    ).team
    save_plan(actor=scene.requester, team=other, name="hasty", body=HASTY)
    with pytest.raises(UnknownPlan):
        start(scene, "hasty")


@pytest.mark.parametrize("change", [{"plan": "direct"}, {"plan": "canary-quick"}])
def test_a_service_is_not_switched_to_a_laxer_plan_without_right_and_reason(
    scene: Scene, boss: Actor, change: dict[str, str]
) -> None:
    ada, cleo = api(user_of(scene.requester)), api(user_of(boss))
    path = f"services/{scene.name}/"
    assert ada.patch(path, change | {"reason": "because"}).status_code == 403
    form = {
        "engine": "echo",
        "device": "auto",
        "replicas": 2,
        "slots": 4,
        "resources": "{}",
        "settings": "{}",
    }
    form |= {"revision": Service.objects.get(pk=scene.service.pk).revision, "reason": "because", **change}
    answer = as_person("ada", scene).post(f"/{path}settings/", form)
    assert answer.status_code == 422
    assert "would no longer demand" in answer.content.decode()
    assert cleo.patch(path, change).status_code == 400
    assert ada.patch(path, {"plan": "canary"}).status_code == 200
    assert cleo.patch(path, change | {"reason": "a toy by now"}).json()["plan"] == change["plan"]
    assert AuditRecord.objects.filter(action="policy.lower").count() == 1


@pytest.mark.every_database
def test_a_policy_of_its_own_makes_a_service_stricter_and_only_an_admin_makes_it_laxer(
    scene: Scene, boss: Actor
) -> None:
    set_team_policy(actor=boss, team=scene.team, policy={"approval": "anyone", "role": "admin"})
    change, ada = change_service, scene.requester
    change(scene.service, actor=ada, policy={"approvers": ["bo"], "approval": "anyone"})
    demanded = policy_of(Service.objects.get(pk=scene.service.pk))
    assert (demanded.approval, demanded.role, demanded.approvers) == ("another_person", "admin", ("bo",))
    for laxer in ({"policy": None}, {"policy": {"approval": "anyone", "approvers": ["bo", "ada"]}}):
        with pytest.raises(BelowPolicy):
            change(Service.objects.get(pk=scene.service.pk), actor=ada, reason="because", **laxer)
    with pytest.raises(BelowPolicy, match="team's policy"):
        # It demands no less today, but would not follow the team tomorrow.
        change(
            Service.objects.get(pk=scene.service.pk),
            actor=ada,
            reason="because",
            policy={"approval": "another_person", "role": "admin", "approvers": ["bo"], "judge": True},
            policy_replaces_team=True,
        )
    change(
        Service.objects.get(pk=scene.service.pk),
        actor=boss,
        reason="a playground",
        plan_name="direct",
        policy={},
        policy_replaces_team=True,
    )
    scene.service.refresh_from_db()
    assert start(scene, "direct").shortfalls == []


def test_only_the_right_changes_the_policy_of_a_team(scene: Scene, boss: Actor) -> None:
    ada, cleo = api(user_of(scene.requester)), api(user_of(boss))
    path = f"release-policies/{scene.team.name}/"
    assert ada.put(path, {"policy": {}}).status_code == 403
    assert cleo.put(path, {"policy": {"judge": True, "plans": ["swift"]}}).status_code == 201
    assert ada.put(path, {"policy": {"judge": True, "plans": ["swift", "direct"]}}).status_code == 403
    assert cleo.put(path, {"policy": {}}).status_code == 400
    assert cleo.put(path, {"policy": {"approvers": []}, "reason": "x"}).status_code == 400
    assert cleo.put(path, {"policy": {}, "reason": "over"}).status_code == 200
    assert AuditRecord.objects.get(action="policy.lower").detail["no_longer"] == [
        "an analysis step",
        "one of the plans: swift",
    ]


def test_a_plan_that_a_policy_names_stays_as_it_is(scene: Scene, boss: Actor) -> None:
    save_plan(actor=scene.requester, team=scene.team, name="hasty", body=HASTY)
    set_team_policy(actor=boss, team=scene.team, policy={"plans": ["hasty", "swift", "later"]})
    hasty = Plan.objects.get(name="hasty")
    slower = {"steps": [{"kind": "deploy", "replicas": 2}, {"kind": "promote"}]}
    with pytest.raises(BelowPolicy, match="hasty as it is"):
        save_plan(actor=scene.requester, team=scene.team, name="hasty", body=slower)
    with pytest.raises(BelowPolicy):
        delete_plan(hasty, actor=scene.requester)
    with pytest.raises(BelowPolicy):
        save_plan(actor=scene.requester, team=scene.team, name="later", body=HASTY)
    save_plan(actor=scene.requester, team=scene.team, name="hasty", body=HASTY)
    with pytest.raises(BelowPolicy, match="none of the plans"):
        start(scene, "canary")


def test_moving_an_alias_changes_nothing_that_is_served(scene: Scene) -> None:
    Service.objects.update(alias="production")
    set_alias(actor=scene.requester, model=scene.v2.model, alias="production", version=scene.v2, reason="x")
    scene.run_for(5)
    scene.service.refresh_from_db()
    assert scene.service.stable_version == scene.v1
    assert set(scene.split()) == {scene.service.stable_deployment}
    assert nothing_started(scene)


def test_a_hub_sync_releases_by_no_laxer_plan_whoever_asked_for_it(scene: Scene, boss: Actor) -> None:
    source: dict[str, Any] = {"model": scene.v2.model, "repo_id": "acme/story", "release_to": scene.name}
    with pytest.raises(Invalid, match="falls short"):
        create_hub_source(actor=scene.requester, release_plan="direct", **source)
    save_plan(actor=boss, team=scene.team, name="later", body=SWIFT)
    made = create_hub_source(actor=boss, release_plan="later", **source)
    save_plan(actor=boss, team=scene.team, name="later", body=HASTY)
    scene.v2.source = {"commit": "a" * 40}
    assert "falls short" in trigger_release(made, scene.v2)
    assert nothing_started(scene)


def test_a_rollback_to_what_served_needs_no_approval_and_is_an_event(scene: Scene) -> None:
    create_webhook(actor=SYSTEM, url="https://hooks.example.org/", team=scene.team)
    operator = scene._person("otto", Role.OPERATOR)
    promoted = scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    scene.approve()
    scene.run_until_state(S.PROMOTED)
    scene.release = rollback(promoted, actor=operator, reason="it is 3 a.m.")
    scene.run_until_state(S.PROMOTED)
    assert AuditRecord.objects.get(action="release.rollback").reason == "it is 3 a.m."
    assert WebhookEvent.objects.filter(type="release.rollback").count() == 1
    with pytest.raises(BelowPolicy):
        # What served before is no reason to release it without approval.
        start(scene, "direct")


def test_the_first_version_of_a_service_needs_no_approval_and_the_second_does(scene: Scene) -> None:
    assert Release.objects.get(service=scene.service).shortfalls == []
    twin = create_service(
        actor=scene.requester, team=scene.team, name="twin", model=scene.v1.model, version=scene.v1,
        cluster=scene.cluster, engine="echo", plan_name="canary",
    )  # fmt: skip
    scene.run_until(lambda: Service.objects.get(pk=twin.pk).stable_version_id is not None)
    with pytest.raises(BelowPolicy):
        start_release(actor=scene.requester, service=twin, version=scene.v2, plan_name="direct")


def test_one_approves_ones_own_release_with_no_token_either(scene: Scene) -> None:
    mine = actors.of_user(user_of(scene.approver))
    scene.release = start_release(actor=mine, service=scene.service, version=scene.v2)
    scene.run_until_state(S.WAITING_APPROVAL)
    path = f"releases/{scene.release.pk}/approve/"
    for scopes in (None, [Right.READ, Right.RELEASES_APPROVE]):
        answer = api(user_of(mine), scopes=scopes).post(path, {"reason": "me"})
        assert answer.status_code == 403
        assert "another person must approve" in answer.json()["detail"]


def test_a_machine_account_approves_nothing(scene: Scene) -> None:
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    User.objects.filter(pk=scene.approver.user_id).update(kind=AccountKind.MACHINE)
    with pytest.raises(RightMissing):
        approve(scene.release, actor=actors.of_user(user_of(scene.approver)), reason="fine")


def test_only_the_people_whom_the_policy_names_approve_and_nobody_else_makes_approvers(
    scene: Scene, boss: Actor
) -> None:
    scene._person("di", Role.APPROVER)
    change_service(scene.service, actor=boss, policy={"approval": "anyone", "approvers": ["di"]})
    release = scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    change_service(scene.service, actor=boss, policy=None, reason="afterwards is too late")
    with pytest.raises(BelowPolicy, match="names who may approve: di"):
        scene.approve()
    page = text_of(as_person("bo", scene), f"/releases/{release.pk}/")
    assert f"/releases/{release.pk}/approve/" not in page
    assert "names who may approve: di. You are not among them." in page
    assert "Approvers: di." in page
    with pytest.raises(RightMissing):
        set_role(actor=scene.requester, user=user_of(scene.requester), team=scene.team, role=Role.APPROVER)
    approve(release, actor=actors.of_user(User.objects.get(username="di")), reason="fine")


def test_the_admin_site_writes_nothing_of_it() -> None:
    registered = {model._meta.label: type(one) for model, one in admin.site._registry.items()}
    assert not [label for label in registered if label.startswith("releases.")]
    assert issubclass(registered["accounts.Membership"], ReadOnly)


def late_plan(scene: Scene, percent: int) -> str:
    steps = [
        {"kind": "deploy", "share_percent": 100},
        {"kind": "weight", "percent": percent},
        {"kind": "approval"},
        {"kind": "promote"},
    ]
    save_plan(actor=scene.requester, team=scene.team, name=f"late-{percent}", body={"steps": steps})
    return f"late-{percent}"


def test_a_service_may_follow_its_own_plan_whose_approval_comes_late(scene: Scene, boss: Actor) -> None:
    change_service(scene.service, actor=boss, reason="late", plan_name=late_plan(scene, 60))
    assert scene.start().shortfalls == []


def test_a_plan_that_contradicts_the_policy_is_refused_when_it_is_set(scene: Scene, boss: Actor) -> None:
    set_team_policy(actor=boss, team=scene.team, policy={"approval": "anyone", "percent_before_approval": 40})
    with pytest.raises(Invalid) as refused:
        change_service(scene.service, actor=boss, reason="late", plan_name=late_plan(scene, 60))
    [sentence] = refused.value.fields["plan_name"]
    assert sentence.startswith("The plan late-60 falls short of the release policy, which wins.")
    assert "60 % of the traffic before the approval, more than 40 %" in sentence
