from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.models import User
from accounts.services.rights import require
from accounts.states import Right
from common import audit, events
from common.actor import Actor
from common.reconcile import kernel
from releases.approving import ApprovalRules, acts_for, fresh_sign_in_asked, may_approve, rules_of
from releases.errors import BelowPolicy, NotWaiting, SeparationOfDuties, SignInTooOld
from releases.events import ReleaseMoved
from releases.models import Approval, Release
from releases.plans.step import ApprovalTerms
from releases.selectors.plans import plan_of, policy_at_start
from releases.services.release import halt_release
from releases.states import ApprovalDecision, Halt, ReleaseState, word_of


def approve(release: Release, *, actor: Actor, reason: str, signed_in_at: datetime | None = None) -> Approval:
    """Say yes to the approval that the release waits for. `signed_in_at`: the person's last sign-in.

    Raises NotAllowed, NotWaiting, SeparationOfDuties, SignInTooOld, BelowPolicy when the policy names other
    people.
    """
    return _decide(release, ApprovalDecision.APPROVE, actor=actor, reason=reason, signed_in_at=signed_in_at)


def reject(release: Release, *, actor: Actor, reason: str) -> Approval:
    """Say no: the release gives up and returns all traffic to stable. Raises NotAllowed, NotWaiting."""
    return _decide(release, ApprovalDecision.REJECT, actor=actor, reason=reason)


def _decide(
    release: Release,
    decision: ApprovalDecision,
    *,
    actor: Actor,
    reason: str,
    signed_in_at: datetime | None = None,
) -> Approval:
    with transaction.atomic():
        release.refresh_from_db(from_queryset=Release.objects.select_for_update())
        terms = plan_of(release).steps[release.step_index].approval
        absent = _right_of(release, actor, terms)
        if actor.user_id is None:
            raise NotWaiting(_("Only a person can decide."))
        waits = release.state == ReleaseState.WAITING_APPROVAL and not release.halt
        if not waits or terms is None:
            raise NotWaiting(
                _("The release does not wait for an approval; it is %(release)s.")
                % {"release": word_of(release.state)}
            )
        rules = rules_of(release, terms)
        _refuse_second(release, actor, absent, rules)
        if decision == ApprovalDecision.APPROVE:
            _refuse_unfit(release, actor, terms, rules, absent, signed_in_at)
        try:
            with transaction.atomic():
                approval = Approval.objects.create(
                    release=release,
                    step_index=release.step_index,
                    plan_hash=release.plan_hash,
                    decision=decision,
                    by=User.objects.get(pk=actor.user_id),
                    on_behalf_of=absent,
                    policy_hash=rules.policy_hash,
                    requester_id=release.requested_by_id,
                    separate_requester=terms.separate_requester,
                    reason=reason,
                )
        except IntegrityError:
            raise NotWaiting(_("Somebody has decided already.")) from None
        if decision == ApprovalDecision.REJECT:
            halt_release(release, Halt.REJECT, by=actor.name, reason=reason)
        else:
            kernel.wake(release)
        audit.record(
            actor,
            f"release.{decision}",
            subject=release,
            team_id=release.team_id,
            reason=reason,
            detail={
                "step": release.step_index,
                "plan_hash": release.plan_hash,
                **({"on_behalf_of": str(absent)} if absent else {}),
            },
        )
        events.publish(ReleaseMoved(release.pk, release.service_id))
    return approval


def _right_of(release: Release, actor: Actor, terms: ApprovalTerms | None) -> User | None:
    """Return in whose place the actor decides; None: by a right of their own. Raises NotAllowed."""
    if terms is not None and not may_approve(release, actor, terms):
        absent = acts_for(release, actor, terms)
        if absent is not None:
            return absent
    require(actor, Right.RELEASES_APPROVE, release.team, service=release.service.name)
    if terms is not None and terms.role == "admin":
        require(actor, Right.PEOPLE_ADMIN, release.team)
    named = policy_at_start(release).approvers
    is_named = named is None or actor.name in named
    return None if is_named or terms is None else acts_for(release, actor, terms)


def _refuse_second(release: Release, actor: Actor, absent: User | None, rules: ApprovalRules) -> None:
    """Raises NotWaiting where enough people have decided, or somebody has by the same right."""
    rows = release.approvals.filter(step_index=release.step_index, plan_hash=release.plan_hash)
    given = [one for one in rows if rules.counts(one)]
    if len(given) >= rules.people:
        raise NotWaiting(_("Somebody has decided already."))
    if any(one.by_id == actor.user_id for one in given):
        raise NotWaiting(_("You have approved it already; another person must approve, too."))
    right_of = {actor.user_id} if absent is None else {absent.pk}
    if any(right_of & {one.by_id, one.on_behalf_of_id} for one in given):
        raise NotWaiting(_("It was approved by this right already; another approver must approve, too."))


def _refuse_unfit(
    release: Release,
    actor: Actor,
    terms: ApprovalTerms,
    rules: ApprovalRules,
    absent: User | None,
    signed_in_at: datetime | None,
) -> None:
    """Raises SeparationOfDuties, BelowPolicy, SignInTooOld."""
    if terms.separate_requester and release.requested_by_id == actor.user_id:
        raise SeparationOfDuties(
            _("You asked for this release, so somebody else must approve it: that is what its plan says.")
        )
    named, name = rules.policy.approvers, absent.username if absent else actor.name
    if named is not None and name not in named:
        people = ", ".join(named) or _("nobody")
        raise BelowPolicy(
            _("The release policy names who may approve: %(people)s. You are not among them.")
            % {"people": people}
        )
    if rules.policy.fresh_sign_in and actor.via != "web":
        raise SignInTooOld(_("The release policy asks for a fresh sign-in: approve it in the browser."))
    if asked := fresh_sign_in_asked(rules.policy, signed_in_at):
        raise SignInTooOld(asked)
