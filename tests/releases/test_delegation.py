"""Approvals by delegation, under a policy that changes, by people who have just signed in, and in time."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from accounts import actors
from accounts.models import Membership, User, WebhookEvent
from accounts.services.webhooks import create_webhook
from accounts.states import Role
from common.actor import Actor
from common.errors import Invalid, NotAllowed
from common.models import AuditRecord
from releases.errors import NotWaiting, SeparationOfDuties, SignInTooOld
from releases.selectors.releases import waiting_for
from releases.services.approval import approve
from releases.services.delegation import delegate_approvals, end_delegation
from releases.services.plan import save_plan
from releases.services.policy import set_team_policy
from releases.services.release import start_release
from releases.services.service import change_service
from releases.states import ReleaseState as S
from tests.cast import SYSTEM, api, client_of
from tests.releases.world import Scene

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


def member(scene: Scene, name: str, role: Role = Role.DEVELOPER) -> Actor:
    user = User.objects.create(username=name)
    Membership.objects.create(user=user, team=scene.team, role=role)
    return actors.of_user(user)


def delegated(scene: Scene, to: Actor, **times):
    delegate = User.objects.get(pk=to.user_id)
    return delegate_approvals(
        actor=scene.approver, team=scene.team, delegate=delegate, reason="Away.", **times
    )


def test_a_delegate_approves_in_the_place_of_who_is_away_and_both_are_named(waiting: Scene) -> None:
    cy = member(waiting, "cy")
    with pytest.raises(NotAllowed):
        approve(waiting.release, actor=cy, reason="Reads well.")
    row = delegated(waiting, cy)
    assert waiting_for(cy).exists()
    approval = approve(waiting.release, actor=cy, reason="Reads well.")
    assert approval.who == "cy (bo)"
    assert AuditRecord.objects.filter(action="release.approve").latest("seq").detail["on_behalf_of"] == "bo"
    told = api(User.objects.get(username="ada")).get(f"releases/{waiting.release.pk}/").json()["approvals"]
    assert [(one["by"], one["on_behalf_of"]) for one in told] == [("cy", "bo")]
    waiting.run_until_state(S.PROMOTED)
    end_delegation(row, actor=waiting.approver)
    assert not waiting_for(cy).exists()


def test_a_delegate_decides_over_rest_with_a_token_that_reaches_so_far(waiting: Scene) -> None:
    address, reason = f"releases/{waiting.release.pk}/approve/", {"reason": "Reads well."}
    delegated(waiting, member(waiting, "cy", Role.VIEWER))
    cy = User.objects.get(username="cy")
    for token in ({"scopes": ["read"]}, {"services": ["another"]}):
        assert api(cy, **token).post(address, reason).status_code == 403
    assert not waiting.release.approvals.exists()
    assert api(cy).post(address, reason).status_code == 200
    assert waiting.release.approvals.get().who == "cy (bo)"


def test_a_delegation_counts_within_its_time_and_never_for_ones_own_release(waiting: Scene) -> None:
    ends_at = waiting.clock.at + timedelta(hours=1)
    ada = waiting.requester
    delegated(waiting, ada, ends_at=ends_at)
    with pytest.raises(SeparationOfDuties):
        approve(waiting.release, actor=ada, reason="Mine.")
    cy = member(waiting, "cy")
    delegated(waiting, cy, ends_at=ends_at)
    waiting.clock.pass_(timedelta(hours=2))
    with pytest.raises(NotAllowed):
        approve(waiting.release, actor=cy, reason="Late.")


def test_only_members_are_delegates_and_only_approvers_delegate(waiting: Scene) -> None:
    stranger = actors.of_user(User.objects.create(username="eve"))
    with pytest.raises(Invalid, match="not a member"):
        delegated(waiting, stranger)
    with pytest.raises(NotAllowed):
        delegate_approvals(
            actor=waiting.requester, team=waiting.team, delegate=User.objects.get(username="bo")
        )


def test_an_approval_is_void_once_the_policy_demands_more(waiting: Scene) -> None:
    approve(waiting.release, actor=waiting.approver, reason="Reads well.")
    set_team_policy(actor=SYSTEM, team=waiting.team, policy={"approval": "anyone", "people": 2})
    waiting.run_for(5)
    assert waiting.state() == S.WAITING_APPROVAL
    page = client_of(User.objects.get(username="bo")).get(f"/releases/{waiting.release.pk}/").content.decode()
    assert "1 approval is void" in page
    assert waiting_for(waiting.approver).exists()
    told = api(User.objects.get(username="bo")).get(f"releases/{waiting.release.pk}/").json()
    assert told["waiting_for"]["people"] == 2
    approve(waiting.release, actor=waiting.approver, reason="Still.")
    with pytest.raises(NotWaiting):
        approve(waiting.release, actor=waiting.approver, reason="Twice.")
    approve(waiting.release, actor=member(waiting, "cy", Role.APPROVER), reason="Me, too.")
    waiting.run_until_state(S.PROMOTED)


def test_one_right_is_no_two_approvals(waiting: Scene) -> None:
    set_team_policy(actor=SYSTEM, team=waiting.team, policy={"approval": "anyone", "people": 2})
    cy = member(waiting, "cy", Role.VIEWER)
    delegated(waiting, cy)
    approve(waiting.release, actor=waiting.approver, reason="Reads well.")
    with pytest.raises(NotWaiting):
        approve(waiting.release, actor=cy, reason="In the place of bo.")
    page = client_of(User.objects.get(username="cy")).get(f"/releases/{waiting.release.pk}/").content.decode()
    assert "approved by this right already" in page
    assert f"/releases/{waiting.release.pk}/approve/" not in page
    # Of two who are away, the one whose right is left counts.
    di = member(waiting, "di", Role.APPROVER)
    delegate_approvals(actor=di, team=waiting.team, delegate=User.objects.get(username="cy"))
    assert approve(waiting.release, actor=cy, reason="In the place of di.").who == "cy (di)"


def test_a_policy_that_is_stricter_by_now_keeps_the_requester_from_approving(scene: Scene) -> None:
    steps = [{"kind": "deploy", "share_percent": 100}, {"kind": "weight", "percent": 30}]
    steps += [{"kind": "approval", "separate_requester": False}, {"kind": "promote"}]
    save_plan(actor=SYSTEM, team=scene.team, name="own", body={"steps": steps})
    change_service(scene.service, actor=SYSTEM, plan_name="own", reason="We are few.")
    scene.release = start_release(
        actor=scene.approver, service=scene.service, version=scene.v2, plan_name="own"
    )
    scene.run_until_state(S.WAITING_APPROVAL)
    address = f"/releases/{scene.release.pk}/"
    browser = client_of(User.objects.get(username="bo"))
    assert f"{address}approve/" in browser.get(address).content.decode()
    stricter = {"approval": "another_person", "role": "admin"}
    set_team_policy(actor=SYSTEM, team=scene.team, policy=stricter)
    assert f"{address}approve/" not in browser.get(address).content.decode()
    with pytest.raises(NotAllowed):
        approve(scene.release, actor=scene.approver, reason="Mine.")
    Membership.objects.filter(user__username="bo").update(role=Role.ADMIN)
    with pytest.raises(SeparationOfDuties):
        approve(scene.release, actor=actors.of_user(User.objects.get(username="bo")), reason="Mine.")
    waiting_for = (
        api(User.objects.get(username="bo")).get(f"releases/{scene.release.pk}/").json()["waiting_for"]
    )
    assert (waiting_for["role"], waiting_for["separate_requester"]) == ("admin", True)


def test_a_protected_service_is_approved_after_a_fresh_sign_in_alone(waiting: Scene) -> None:
    policy = {"approval": "anyone", "fresh_sign_in": True}
    set_team_policy(actor=SYSTEM, team=waiting.team, policy=policy)
    now = waiting.clock.at
    for signed_in_at in (None, now - timedelta(minutes=6)):
        with pytest.raises(SignInTooOld):
            approve(waiting.release, actor=waiting.approver, reason="Yes.", signed_in_at=signed_in_at)
    approve(waiting.release, actor=waiting.approver, reason="Yes.", signed_in_at=now - timedelta(minutes=4))


def test_whoever_has_just_signed_in_approves_on_the_page(waiting: Scene) -> None:
    set_team_policy(
        actor=SYSTEM, team=waiting.team, policy={"approval": "anyone", "fresh_sign_in": True, "people": 2}
    )
    person = User.objects.get(username="bo")
    person.set_password("a long enough one")
    person.save()
    browser, address = Client(), f"/releases/{waiting.release.pk}/approve/"
    browser.post("/accounts/login/", {"login": "bo", "password": "a long enough one"})
    page, asked = f"/releases/{waiting.release.pk}/", "asks for a fresh sign-in"
    assert asked not in browser.get(page).content.decode()
    waiting.clock.at = timezone.now() + timedelta(minutes=6)
    assert asked in browser.get(page).content.decode()
    browser.post(address, {"reason": "Yes."})
    assert not waiting.release.approvals.exists()
    waiting.clock.at = timezone.now()
    answer = browser.post(address, {"reason": "Yes."}, follow=True)
    assert "1 more person must approve" in answer.content.decode()
    page = browser.get(f"/releases/{waiting.release.pk}/").content.decode()
    assert "1 of 2 people have approved: bo." in page


def test_webhooks_are_warned_once_before_the_deadline(waiting: Scene, settings) -> None:
    settings.SLIPWAY_WEBHOOK_ALLOWED_HOSTS = ("127.0.0.1",)
    create_webhook(actor=SYSTEM, url="http://127.0.0.1:9/", team=waiting.team)
    due = WebhookEvent.objects.filter(type="release.approval_due")
    waiting.run_for(60)
    assert not due.exists()
    waiting.clock.pass_(timedelta(seconds=420))
    waiting.run_for(5)
    assert due.count() == 1


def test_the_review_shows_what_changes_what_was_found_and_what_follows(waiting: Scene) -> None:
    page = client_of(User.objects.get(username="bo")).get(f"/releases/{waiting.release.pk}/").content.decode()
    for words in ("If approved", "If rejected", "3 real requests answered", "Licence"):
        assert words in page
