"""What may fall short of a release policy, and who may let it: the right, a reason, a record and an event."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import Model
from django.utils import translation
from django.utils.translation import gettext as _
from pydantic import ValidationError

from accounts.models import Team
from accounts.services.rights import require
from accounts.states import Right
from common import audit, events
from common.actor import Actor
from common.errors import Invalid, NotAllowed
from common.reconcile import kernel
from common.sentences import joined, listed
from releases.errors import BelowPolicy, BypassReasonMissing, NotPossibleNow
from releases.events import PolicyBypassed, PolicyLowered
from releases.models import Release, Service, TeamPolicy
from releases.plans.plan import PlanSpec
from releases.plans.step import kinds_with
from releases.policy import PolicyTerm, ReleasePolicy, lowered, shortfalls
from releases.selectors.plans import policy_of_team


def set_team_policy(
    *,
    actor: Actor,
    team: Team,
    policy: Mapping[str, Any],
    reason: str = "",
    expected_revision: int | None = None,
) -> TeamPolicy:
    """Set what every release of the team's services must go through at least.

    Raises NotAllowed, Invalid, BypassReasonMissing when it demands less than before, common.revisions.Stale.
    """
    require(actor, Right.RELEASES_BYPASS, team)
    parsed = parse_policy(policy)
    with transaction.atomic():
        before = policy_of_team(team)
        easier = lowered(before, parsed)
        may_lower(easier, actor=actor, team=team, reason=reason)
        values = {"body": parsed.to_dict(), "changed_by": actor.name, "changed_at": kernel.clock()}
        row, is_new = TeamPolicy.objects.get_or_create(team=team, defaults=values)
        if not is_new:
            row.change(expected=expected_revision, **values)
        detail = {"before": before.to_dict(), "after": parsed.to_dict()}
        audit.record(actor, "policy.change", subject=row, team_id=team.pk, reason=reason, detail=detail)
        record_lowering(easier, actor=actor, subject=row, team=team, reason=reason)
    return row


def parse_policy(document: Mapping[str, Any]) -> ReleasePolicy:
    """Raises Invalid, which names the fields below `policy`."""
    try:
        policy = ReleasePolicy.model_validate(document, strict=False)
    except ValidationError as error:
        fields: dict[str, list[str]] = {}
        for one in error.errors(include_url=False):
            path = ".".join(str(part) for part in ("policy", *one["loc"]))
            fields.setdefault(path, []).append(one["msg"])
        raise Invalid(fields=fields) from None
    if policy.approvers and len(policy.approvers) < policy.people:
        few = _("Name at least as many approvers as must approve (%(people)s).") % {"people": policy.people}
        raise Invalid(fields={"policy.approvers": [few]})
    checks = kinds_with("checks")
    if unknown := [kind for kind in policy.steps or () if kind not in checks]:
        words = _("%(step)s is no kind of step that checks the candidate; there are %(known)s.")
        told = words % {"step": unknown[0], "known": listed(checks)}
        raise Invalid(fields={"policy.steps": [told]})
    for name in ("approvers", "plans", "steps"):
        if getattr(policy, name) == ():
            raise Invalid(fields={f"policy.{name}": [_("Name at least one, or leave it out.")]})
    return policy


def let_pass(
    plan: PlanSpec, policy: ReleasePolicy, *, actor: Actor, service: Service, bypass: str | None
) -> tuple[PolicyTerm, ...]:
    """Return what the plan lacks, if the actor may let that pass and says why.

    Raises BelowPolicy, BypassReasonMissing, and NotPossibleNow where no reason can be given: None.
    """
    missing = shortfalls(plan, policy)
    if missing:
        told = joined(str(term) for term in missing)
        names = {"plan": plan.name, "service": service.name, "shortfalls": told}
        sentence = _("The plan %(plan)s falls short of what %(service)s demands. %(shortfalls)s") % names
        if bypass is None:
            advice = _(
                "Give the service a plan that meets this, or release the version on its page with a bypass."
            )
            raise NotPossibleNow(joined((sentence, advice)))
        _require_bypass(actor, service.team, sentence, _("Follow another plan."))
        if not bypass.strip():
            advice = _("Follow another plan, or say here why it may be released all the same.")
            raise BypassReasonMissing(fields={"bypass": [joined((sentence, advice))]})
    return missing


def record_bypass(release: Release, missing: Sequence[PolicyTerm], *, actor: Actor, reason: str) -> None:
    """Call it inside the transaction that starts the release."""
    audit.record(
        actor,
        "release.bypass",
        subject=release,
        team_id=release.team_id,
        reason=reason,
        detail={"lacks": in_english(missing), "plan": release.plan_name},
    )
    events.publish(PolicyBypassed(release.pk))


def may_lower(
    easier: Sequence[PolicyTerm],
    *,
    actor: Actor,
    team: Team,
    reason: str,
    field: str = "reason",
    advice: str = "",
) -> None:
    """Raises BelowPolicy, BypassReasonMissing unless nothing is demanded less than before.

    `advice`: what to do without the right.
    """
    if not easier:
        return
    terms = listed(str(term) for term in easier)
    sentence = _("It would no longer demand %(terms)s.") % {"terms": terms}
    _require_bypass(actor, team, sentence, advice or _("Demand at least as much as now."))
    if not reason.strip():
        advice = _("Say why that is right.")
        raise BypassReasonMissing(fields={field: [joined((sentence, advice))]})


def record_lowering(
    easier: Sequence[PolicyTerm], *, actor: Actor, subject: Model, team: Team, reason: str
) -> None:
    """Call it inside the transaction of the change; nothing is written when nothing is demanded less."""
    if easier:
        detail = {"no_longer": in_english(easier)}
        row = audit.record(
            actor, "policy.lower", subject=subject, team_id=team.pk, reason=reason, detail=detail
        )
        events.publish(PolicyLowered(row.seq))


def in_english(terms: Sequence[PolicyTerm]) -> list[str]:
    """Write it for the record, which has one language."""
    with translation.override("en"):
        return [str(term) for term in terms]


def _require_bypass(actor: Actor, team: Team, sentence: str, advice: str) -> None:
    try:
        require(actor, Right.RELEASES_BYPASS, team)
    except NotAllowed as error:
        raise BelowPolicy(joined((sentence, advice, str(error)))) from None
