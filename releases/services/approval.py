from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.models import User
from accounts.services.rights import require
from accounts.states import Right
from common import audit, events
from common.actor import Actor
from common.reconcile import kernel
from releases.errors import BelowPolicy, NotWaiting, SeparationOfDuties
from releases.events import ReleaseMoved
from releases.models import Approval, Release
from releases.selectors.plans import plan_of, policy_at_start
from releases.services.release import halt_release
from releases.states import ApprovalDecision, Halt, ReleaseState, word_of


def approve(release: Release, *, actor: Actor, reason: str) -> Approval:
    """Say yes to the approval that the release waits for.

    Raises NotAllowed, NotWaiting, SeparationOfDuties, BelowPolicy when the policy names other people.
    """
    return _decide(release, ApprovalDecision.APPROVE, actor=actor, reason=reason)


def reject(release: Release, *, actor: Actor, reason: str) -> Approval:
    """Say no: the release gives up and returns all traffic to stable. Raises NotAllowed, NotWaiting."""
    return _decide(release, ApprovalDecision.REJECT, actor=actor, reason=reason)


def _decide(release: Release, decision: ApprovalDecision, *, actor: Actor, reason: str) -> Approval:
    require(actor, Right.RELEASES_APPROVE, release.team, service=release.service.name)
    if actor.user_id is None:
        raise NotWaiting(_("Only a person can decide."))
    with transaction.atomic():
        release.refresh_from_db(from_queryset=Release.objects.select_for_update())
        terms = plan_of(release).steps[release.step_index].approval
        waits = release.state == ReleaseState.WAITING_APPROVAL and not release.halt
        if not waits or terms is None:
            raise NotWaiting(
                _("The release does not wait for an approval; it is %(release)s.")
                % {"release": word_of(release.state)}
            )
        if terms.role == "admin":
            require(actor, Right.PEOPLE_ADMIN, release.team)
        separate = terms.separate_requester
        if decision == ApprovalDecision.APPROVE and separate and release.requested_by_id == actor.user_id:
            raise SeparationOfDuties(
                _("You asked for this release, so somebody else must approve it: that is what its plan says.")
            )
        given = release.approvals.filter(step_index=release.step_index, plan_hash=release.plan_hash)
        if given.count() >= terms.people:
            raise NotWaiting(_("Somebody has decided already."))
        if given.filter(by=actor.user_id).exists():
            raise NotWaiting(_("You have approved it already; another person must approve, too."))
        named = policy_at_start(release).approvers
        if decision == ApprovalDecision.APPROVE and named is not None and actor.name not in named:
            people = ", ".join(named) or _("nobody")
            raise BelowPolicy(
                _("The release policy names who may approve: %(people)s. You are not among them.")
                % {"people": people}
            )
        try:
            with transaction.atomic():
                approval = Approval.objects.create(
                    release=release,
                    step_index=release.step_index,
                    plan_hash=release.plan_hash,
                    decision=decision,
                    by=User.objects.get(pk=actor.user_id),
                    requester_id=release.requested_by_id,
                    separate_requester=separate,
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
            detail={"step": release.step_index, "plan_hash": release.plan_hash},
        )
        events.publish(ReleaseMoved(release.pk, release.service_id))
    return approval
