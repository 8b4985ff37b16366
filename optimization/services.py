"""Every write of optimised versions that people ask for."""

from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from accounts import team_rows
from accounts.models import Team
from accounts.services.rights import require
from accounts.states import Right
from common import audit
from common.actor import Actor
from common.reconcile import kernel
from optimization.errors import OptimizationEnded
from optimization.models import OptimizationRun
from optimization.planning import plan_run
from optimization.states import UNDER_WAY, OptimizationState


def start_run(
    *, actor: Actor, team: Team, name: str = "", description: str = "", seed: int = 0, margin: float = 1.0,
    **order: Any,
) -> OptimizationRun:  # fmt: skip
    """Start a recipe on a version; see `planning.plan_run`. Raises NotAllowed, Conflict, InvalidOptimization
    with the names of the fields."""
    plan = plan_run(actor=actor, team=team, margin=margin, **order)
    row = OptimizationRun(
        team=team,
        name=name
        or _free_name(team, f"{plan.parent.model.name[:30]}-{plan.parent.name[:12]}-{plan.recipe.key}"),
        description=description,
        parent=plan.parent,
        recipe=plan.recipe.name,
        recipe_digest=plan.recipe.digest,
        parameters=dict(plan.parameters),
        seed=seed,
        test_version=plan.test[0],
        test=dict(plan.test[1]),
        margin=margin,
        benchmark_order=dict(plan.benchmark_order),
        limits=plan.limits.as_json(),
    )
    if plan.calibration:
        row.calibration_version, row.calibration = plan.calibration[0], dict(plan.calibration[1])
    with transaction.atomic():
        row.created_at = row.state_since = kernel.clock()
        team_rows.create(row, actor=actor, right=Right.OPTIMIZATIONS_WRITE)
        kernel.wake(row)
    return row


def cancel_run(row: OptimizationRun, *, actor: Actor, reason: str = "") -> OptimizationRun:
    """Stop what runs; a version that is ready stays. Raises NotAllowed, OptimizationEnded."""
    require(actor, Right.OPTIMIZATIONS_WRITE, row.team)
    now = kernel.clock()
    with transaction.atomic():
        while row.state in UNDER_WAY:
            if kernel.interrupt(row, to=OptimizationState.CANCELLING, state_since=now, reason=reason):
                break
            # Its own step was first: it is in another state, or over.
            row.refresh_from_db()
        else:
            raise OptimizationEnded(_("%(name)s is not running any more.") % {"name": row.name})
        audit.record(actor, "optimization.cancel", subject=row, reason=reason, team_id=row.team.pk)
    row.refresh_from_db()
    return row


def _free_name(team: Team, wanted: str) -> str:
    taken = set(
        OptimizationRun.objects.filter(team=team, name__startswith=wanted).values_list("name", flat=True)
    )
    number = 2
    name = wanted
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    return name
