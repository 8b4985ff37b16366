"""Who may approve what: by whose right, and which approvals count under the policy of now."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from accounts.actors import grants_of
from accounts.models import User
from accounts.selectors import may, people_with
from accounts.states import Right
from common.actor import Actor
from common.errors import SlipwayError
from common.reconcile import kernel
from releases.errors import BelowPolicy, SeparationOfDuties
from releases.models import Approval, ApprovalDelegation, Release
from releases.plans.step import ApprovalTerms
from releases.policy import ReleasePolicy, stricter
from releases.selectors.plans import policy_at_start, policy_of

FRESH = timedelta(minutes=5)
"""Since an approver's sign-in, where the policy asks for a fresh one."""


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """Rules of an approval of a release: its plan, the policy at its start and the policy of now."""

    policy: ReleasePolicy
    policy_hash: str
    people: int
    """How many must approve."""
    role: str
    separate_requester: bool

    def counts(self, approval: Approval) -> bool:
        """Whether it was given under the policy of now. Approvals of the release before say of none."""
        return approval.policy_hash in ("", self.policy_hash)


def rules_of(release: Release, terms: ApprovalTerms) -> ApprovalRules:
    """Return the rules. What the plan lacks of the policy at the start was let pass; a stricter policy of now
    adds to it.
    """
    now, start = policy_of(release.service), policy_at_start(release)
    document = json.dumps(now.to_dict(), sort_keys=True)
    policy = stricter(start, now)
    asks_for_admin = now.approval != "none" and now.role == "admin" != start.role
    return ApprovalRules(
        policy=policy,
        policy_hash=hashlib.sha256(document.encode()).hexdigest(),
        people=max(terms.people, policy.people),
        role="admin" if asks_for_admin else terms.role,
        separate_requester=terms.separate_requester or now.approval == "another_person" != start.approval,
    )


@dataclass(frozen=True, slots=True)
class ApprovalCount:
    """The approvals that the step at hand has, under the rules that they need."""

    rules: ApprovalRules
    given: Sequence[Approval]
    void: Sequence[Approval]
    """Of a policy that has changed since."""

    @property
    def people(self) -> int:
        return self.rules.people

    @property
    def missing(self) -> int:
        return max(self.people - len(self.given), 0)


def count_of(release: Release, terms: ApprovalTerms, approvals: Iterable[Approval]) -> ApprovalCount:
    """Count the approvals of the step at hand, oldest first; two queries."""
    rules = rules_of(release, terms)
    at_hand = sorted(
        (one for one in approvals if one.step_index == release.step_index), key=lambda one: one.pk
    )
    void = [one for one in at_hand if not rules.counts(one)]
    return ApprovalCount(rules, [one for one in at_hand if one not in void], void)


def _person_away(release: Release, actor: Actor, count: ApprovalCount) -> User | None:
    """Return the person who is away in whose place the actor may approve; None: nobody.

    Who has not approved yet comes first. A token needs the scope for it, and reaches no further than its
    services.
    """
    services = grants_of(actor).services
    if actor.scopes is not None and Right.RELEASES_APPROVE not in actor.scopes:
        return None
    if services and release.service.name not in services:
        return None
    rows = ApprovalDelegation.objects.in_force(kernel.clock()).filter(
        team=release.team_id, delegate=actor.user_id
    )
    if actor.user_id is None or not rows.exists() or not may(actor, Right.READ, release.team_id):
        return None
    people = approvers_of(release, count.rules).filter(pk__in=rows.values("person"))
    used = _rights_used(count)
    return min(people, key=lambda person: person.pk in used, default=None)


def approvers_of(release: Release, rules: ApprovalRules) -> QuerySet[User]:
    """Return who may approve it by their own right, by name."""
    right = Right.PEOPLE_ADMIN if rules.role == "admin" else Right.RELEASES_APPROVE
    people = people_with(right, release.team_id).order_by("username")
    if rules.separate_requester and release.requested_by_id is not None:
        people = people.exclude(pk=release.requested_by_id)
    if rules.policy.approvers is not None:
        people = people.filter(username__in=rules.policy.approvers)
    return people


def in_whose_place(release: Release, actor: Actor, count: ApprovalCount) -> User | None:
    """Return the person in whose place the actor decides; None: by a right of their own, or by none."""
    named = count.rules.policy.approvers
    if may_approve(release, actor, count.rules) and (named is None or actor.name in named):
        return None
    return _person_away(release, actor, count)


def may_decide(release: Release, actor: Actor, count: ApprovalCount) -> bool:
    """Whether the actor has the right that the step asks for, or acts for who has it."""
    if may_approve(release, actor, count.rules):
        return True
    return in_whose_place(release, actor, count) is not None


def may_approve(release: Release, actor: Actor, rules: ApprovalRules) -> bool:
    """Whether the actor has the right that the step asks for."""
    if not may(actor, Right.RELEASES_APPROVE, release.team, service=release.service.name):
        return False
    return rules.role != "admin" or may(actor, Right.PEOPLE_ADMIN, release.team)


def decided_already(actor: Actor, absent: User | None, count: ApprovalCount) -> str:
    """Return why the actor, in the place of who is absent, has no word left to say; empty: there is one."""
    if not count.missing:
        return _("Somebody has decided already.")
    if any(one.by_id == actor.user_id for one in count.given):
        return _("You have approved; another person must approve, too.")
    if (absent.pk if absent else actor.user_id) in _rights_used(count):
        return _("It was approved by this right already; another approver must approve, too.")
    return ""


def _rights_used(count: ApprovalCount) -> set[int | None]:
    return {pk for one in count.given for pk in (one.by_id, one.on_behalf_of_id) if pk is not None}


def refusal(release: Release, actor: Actor, absent: User | None, rules: ApprovalRules) -> SlipwayError | None:
    """Return what keeps the actor, who may reject it, from approving it; the sign-in aside."""
    if rules.separate_requester and actor.user_id is not None and release.requested_by_id == actor.user_id:
        return SeparationOfDuties(_("You requested this release, so another person must approve it."))
    named, name = rules.policy.approvers, absent.username if absent else actor.name
    if named is not None and name not in named:
        people = ", ".join(named) or _("nobody")
        return BelowPolicy(
            _("The release policy names who may approve: %(people)s. You are not among them.")
            % {"people": people}
        )
    return None


def fresh_sign_in_asked(policy: ReleasePolicy, signed_in_at: datetime | None) -> str:
    """Return what an approver has to do first whose last sign-in was then; empty: nothing."""
    if not policy.fresh_sign_in or (signed_in_at and kernel.clock() - signed_in_at <= FRESH):
        return ""
    return _(
        "The release policy asks for a fresh sign-in: sign out, sign in again, and approve within "
        "%(minutes)s minutes."
    ) % {"minutes": round(FRESH.total_seconds() / 60)}
