"""Who may approve what: by whose right, and which approvals count under the policy of now."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext as _

from accounts.actors import grants_of
from accounts.models import User
from accounts.selectors import may, people_with
from accounts.states import Right
from common.actor import Actor
from common.reconcile import kernel
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

    def counts(self, approval: Approval) -> bool:
        """Whether it was given under the policy of now. Approvals of the release before say of none."""
        return approval.policy_hash in ("", self.policy_hash)


def rules_of(release: Release, terms: ApprovalTerms) -> ApprovalRules:
    now = policy_of(release.service)
    document = json.dumps(now.to_dict(), sort_keys=True)
    policy = stricter(policy_at_start(release), now)
    digest = hashlib.sha256(document.encode()).hexdigest()
    return ApprovalRules(policy, digest, max(terms.people, policy.people))


@dataclass(frozen=True, slots=True)
class ApprovalCount:
    """The approvals that the step at hand has, and how many it needs."""

    people: int
    """How many must approve."""
    policy: ReleasePolicy
    given: Sequence[Approval]
    void: Sequence[Approval]
    """Of a policy that has changed since."""

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
    return ApprovalCount(rules.people, rules.policy, [one for one in at_hand if one not in void], void)


def acts_for(release: Release, actor: Actor, terms: ApprovalTerms) -> User | None:
    """Return the person who is away in whose place the actor may approve; None: nobody.

    A token needs the scope for it, and reaches no further than its services.
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
    right = Right.PEOPLE_ADMIN if terms.role == "admin" else Right.RELEASES_APPROVE
    people = people_with(right, release.team_id).filter(pk__in=rows.values("person"))
    if terms.separate_requester and release.requested_by_id is not None:
        people = people.exclude(pk=release.requested_by_id)
    if (named := policy_at_start(release).approvers) is not None:
        people = people.filter(username__in=named)
    return people.order_by("username").first()


def fresh_sign_in_asked(policy: ReleasePolicy, signed_in_at: datetime | None) -> str:
    """Return what an approver has to do first whose last sign-in was then; empty: nothing."""
    if not policy.fresh_sign_in or (signed_in_at and kernel.clock() - signed_in_at <= FRESH):
        return ""
    return _(
        "The release policy asks for a fresh sign-in: sign out, sign in again, and approve within "
        "%(minutes)s minutes."
    ) % {"minutes": round(FRESH.total_seconds() / 60)}


def may_approve(release: Release, actor: Actor, terms: ApprovalTerms) -> bool:
    """Whether the actor has the right that the step asks for."""
    if not may(actor, Right.RELEASES_APPROVE, release.team, service=release.service.name):
        return False
    return terms.role != "admin" or may(actor, Right.PEOPLE_ADMIN, release.team)
