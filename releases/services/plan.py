from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.models import Team
from accounts.services.rights import require
from accounts.states import Right
from common import audit
from common.actor import Actor
from common.reconcile import kernel
from releases.errors import InvalidPlan, NotPossibleNow, PlanProblem
from releases.models import Plan, Service
from releases.plans import plan as plans
from releases.plans.builtin import builtin_plans
from releases.plans.plan import parse_plan, plan_hash
from releases.policy import PolicyTerm, demanded_by, lowered
from releases.selectors.plans import is_named_by_policy
from releases.services.policy import may_lower, record_lowering


def save_plan(
    *,
    actor: Actor,
    team: Team,
    name: str,
    body: Mapping[str, Any],
    expected_revision: int | None = None,
    reason: str = "",
) -> Plan:
    """Create or replace the team's plan `name`. Releases that are under way keep the plan they started with.

    Demanding less of the releases of a service that uses it, or changing a plan that a release policy names,
    takes the right `releases.bypass` and a `reason`. Raises NotAllowed, BelowPolicy, BypassReasonMissing,
    InvalidPlan (with faults per place), common.revisions.Stale.
    """
    require(actor, Right.SERVICES_WRITE, team)
    if name in builtin_plans():
        message = _("'%(name)s' is built in: save your own under another name.") % {"name": name}
        raise InvalidPlan((PlanProblem("name", message),))
    parsed = parse_plan({**body, "name": name})
    values = {
        "description": parsed.description,
        "body": parsed.model_dump(mode="json"),
        "hash": plan_hash(parsed),
        "changed_by": actor.name,
        "changed_at": kernel.clock(),
    }
    with transaction.atomic():
        easier = _easier(team, name, parsed)
        may_lower(easier, actor=actor, team=team, reason=reason)
        plan, is_new = Plan.objects.get_or_create(team=team, name=name, defaults=values)
        before = "" if is_new else plan.hash
        if not is_new:
            plan.change(expected=expected_revision, **values)
        audit.record(
            actor,
            "plan.create" if is_new else "plan.change",
            subject=plan,
            team_id=team.pk,
            reason=reason,
            detail={"before": before, "after": plan.hash},
        )
        record_lowering(easier, actor=actor, subject=plan, team=team, reason=reason)
    return plan


def _easier(team: Team, name: str, after: plans.PlanSpec) -> tuple[PolicyTerm, ...]:
    """Return what releases would no longer have to go through if the plan of that name became `after`."""
    before = Plan.objects.filter(team=team, name=name).first()
    if before is not None and parse_plan(before.body) == after:
        return ()
    if is_named_by_policy(name, team=team):
        return (PolicyTerm("pinned", {"name": name}),)
    if before is None or not Service.objects.filter(team=team, plan_name=name).exists():
        return ()
    return lowered(demanded_by(parse_plan(before.body)), demanded_by(after))


def delete_plan(plan: Plan, *, actor: Actor, reason: str = "") -> None:
    """Raises NotAllowed, NotPossibleNow when services use it or it is built in; as `save_plan` when a release
    policy names it."""
    if plan.team_id is None:
        raise NotPossibleNow(_("'%(plan)s' is built in: it cannot be deleted.") % {"plan": plan.name})
    require(actor, Right.SERVICES_WRITE, plan.team)
    users = list(
        Service.objects.filter(team=plan.team, plan_name=plan.name).values_list("name", flat=True)[:5]
    )
    if users:
        raise NotPossibleNow(
            _("Services use this plan: %(users)s. Give them another plan first.")
            % {"users": ", ".join(users)}
        )
    is_named = is_named_by_policy(plan.name, team=plan.team)
    easier = (PolicyTerm("pinned", {"name": plan.name}),) if is_named else ()
    may_lower(easier, actor=actor, team=plan.team, reason=reason)
    with transaction.atomic():
        audit.record(
            actor,
            "plan.delete",
            subject=plan,
            reason=reason,
            team_id=plan.team_id,
            detail={"body": plan.body},
        )
        record_lowering(easier, actor=actor, subject=plan, team=plan.team, reason=reason)
        plan.delete()
