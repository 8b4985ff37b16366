from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.models import User
from accounts.services.rights import require
from accounts.states import Right
from common import audit, events
from common.actor import Actor
from common.reconcile import kernel
from releases.approving import (
    ApprovalCount,
    ApprovalRules,
    count_of,
    decided_already,
    fresh_sign_in_asked,
    in_whose_place,
    refusal,
)
from releases.errors import NotWaiting, SignInTooOld
from releases.events import ReleaseMoved
from releases.models import Approval, Release
from releases.selectors.plans import plan_of
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
        count = _count_of(release)
        absent = _right_of(release, actor, count)
        if actor.user_id is None:
            raise NotWaiting(_("Only a person can decide."))
        waits = release.state == ReleaseState.WAITING_APPROVAL and not release.halt
        if not waits or count is None:
            raise NotWaiting(
                _("The release does not wait for an approval; it is %(release)s.")
                % {"release": word_of(release.state)}
            )
        if decided := decided_already(actor, absent, count):
            raise NotWaiting(decided)
        rules = count.rules
        if decision == ApprovalDecision.APPROVE:
            _refuse_unfit(release, actor, rules, absent, signed_in_at)
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
                    separate_requester=rules.separate_requester,
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


def require_decision(release: Release, *, actor: Actor) -> None:
    """Raises NotAllowed for who may neither approve nor reject it."""
    _right_of(release, actor, _count_of(release))


def _count_of(release: Release) -> ApprovalCount | None:
    """Return where the approval of the step at hand stands; None: the step is no approval."""
    terms = plan_of(release).steps[release.step_index].approval
    given = release.approvals.filter(plan_hash=release.plan_hash)
    return count_of(release, terms, given) if terms else None


def _right_of(release: Release, actor: Actor, count: ApprovalCount | None) -> User | None:
    """Return in whose place the actor decides; None: by a right of their own. Raises NotAllowed."""
    absent = in_whose_place(release, actor, count) if count else None
    if absent is None:
        require(actor, Right.RELEASES_APPROVE, release.team, service=release.service.name)
        if count is not None and count.rules.role == "admin":
            require(actor, Right.PEOPLE_ADMIN, release.team)
    return absent


def _refuse_unfit(
    release: Release,
    actor: Actor,
    rules: ApprovalRules,
    absent: User | None,
    signed_in_at: datetime | None,
) -> None:
    """Raises SeparationOfDuties, BelowPolicy, SignInTooOld."""
    if refused := refusal(release, actor, absent, rules):
        raise refused
    if rules.policy.fresh_sign_in and actor.via != "web":
        raise SignInTooOld(_("The release policy asks for a fresh sign-in: approve it in the browser."))
    if asked := fresh_sign_in_asked(rules.policy, signed_in_at):
        raise SignInTooOld(asked)
