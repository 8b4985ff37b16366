from collections.abc import Mapping
from typing import Any

from django.db import transaction

from accounts.models import Team
from accounts.services import require
from accounts.states import Right
from common import audit
from common.actor import Actor
from common.reconcile import kernel
from releases import plans
from releases.errors import InvalidPlan, NotPossibleNow, PlanProblem
from releases.models import Plan, Service


def save_plan(
    *, actor: Actor, team: Team, name: str, body: Mapping[str, Any], expected_revision: int | None = None
) -> Plan:
    """Create or replace the team's plan `name`. Releases that are under way keep the plan they started with.

    Raises NotAllowed, InvalidPlan (with faults per place), common.revisions.Stale.
    """
    require(actor, Right.SERVICES_WRITE, team)
    if name in plans.BUILTIN_PLANS:
        message = f"'{name}' is built in: save your own under another name."
        raise InvalidPlan((PlanProblem("name", message),))
    parsed = plans.parse_plan({**body, "name": name})
    values = {
        "description": parsed.description,
        "body": parsed.model_dump(mode="json"),
        "hash": plans.plan_hash(parsed),
        "changed_by": actor.name,
        "changed_at": kernel.clock(),
    }
    with transaction.atomic():
        plan, is_new = Plan.objects.get_or_create(team=team, name=name, defaults=values)
        before = "" if is_new else plan.hash
        if not is_new:
            plan.change(expected=expected_revision, **values)
        audit.record(
            actor,
            "plan.create" if is_new else "plan.change",
            subject=plan,
            team_id=team.pk,
            detail={"before": before, "after": plan.hash},
        )
    return plan


def delete_plan(plan: Plan, *, actor: Actor, reason: str = "") -> None:
    """Raises NotAllowed, NotPossibleNow when services use it or it is built in."""
    if plan.team_id is None:
        raise NotPossibleNow(f"'{plan.name}' is built in: it cannot be deleted.")
    require(actor, Right.SERVICES_WRITE, plan.team)
    users = list(
        Service.objects.filter(team=plan.team, plan_name=plan.name).values_list("name", flat=True)[:5]
    )
    if users:
        raise NotPossibleNow(f"Services use this plan: {', '.join(users)}. Give them another plan first.")
    with transaction.atomic():
        audit.record(
            actor,
            "plan.delete",
            subject=plan,
            reason=reason,
            team_id=plan.team_id,
            detail={"body": plan.body},
        )
        plan.delete()
