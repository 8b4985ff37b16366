"""Every write of optimised versions that people ask for."""

from collections.abc import Mapping, Sequence
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
from optimization.errors import InvalidOptimization, OptimizationEnded
from optimization.models import OptimizationRun
from optimization.planning import RunPlan, plan_run
from optimization.recipes import recipes as known_recipes
from optimization.states import UNDER_WAY, OptimizationState

MOST_RECIPES = 20


def start_run(
    *, actor: Actor, team: Team, name: str = "", description: str = "", seed: int = 0, margin: float = 1.0,
    **order: Any,
) -> OptimizationRun:  # fmt: skip
    """Start a recipe on a version; see `planning.plan_run`. Raises NotAllowed, Conflict, InvalidOptimization
    with the names of the fields."""
    plan = plan_run(actor=actor, team=team, margin=margin, **order)
    return _begin(actor, team, plan, name=name, description=description, seed=seed, margin=margin)


def plan_batch(
    *, actor: Actor, team: Team, recipes: Sequence[str], parameters: Mapping[str, Any] | None = None,
    budget_hours: float | None = None, budget_cost: float | None = None, **order: Any,
) -> list[RunPlan]:  # fmt: skip
    """Outline several recipes on one version. A parameter is for those that have it. Raises as
    `planning.plan_run`."""
    if faults := _batch_faults(recipes, parameters or {}, budget_hours, budget_cost):
        raise InvalidOptimization(fields=faults)
    plans = []
    for recipe in recipes:
        own = {key: value for key, value in (parameters or {}).items() if _has(recipe, key)}
        plans.append(plan_run(actor=actor, team=team, recipe=recipe, parameters=own, **order))
    if budget_cost is not None and any(plan.cost is None for plan in plans):
        unknown = _("No price is set for the GPUs of the cluster, or it has none: give hours instead.")
        raise InvalidOptimization(fields={"budget_cost": [unknown]})
    return plans


def start_batch(
    *, actor: Actor, team: Team, name: str = "", description: str = "", seed: int = 0, margin: float = 1.0,
    budget_hours: float | None = None, budget_cost: float | None = None, **order: Any,
) -> list[OptimizationRun]:  # fmt: skip
    """Start several recipes on one version; with a budget they take turns. Raises as `start_run`."""
    plans = plan_batch(
        actor=actor, team=team, margin=margin, budget_hours=budget_hours, budget_cost=budget_cost, **order
    )
    limits = {"hours": budget_hours, "cost": budget_cost}
    batch = _free_name(team, name or f"{plans[0].parent.model.name[:30]}-{plans[0].parent.name[:12]}-batch",
                       column="batch")  # fmt: skip
    with transaction.atomic():
        return [
            _begin(
                actor, team, plan, name="", description=description, seed=seed, margin=margin, batch=batch,
                budget={**limits, "estimate": {"hours": plan.hours, "cost": plan.cost}}
                if budget_hours is not None or budget_cost is not None
                else {},
            )
            for plan in plans
        ]  # fmt: skip


def _batch_faults(
    names: Sequence[str], parameters: Mapping[str, Any], hours: float | None, cost: float | None
) -> dict[str, list[str]]:
    faults: dict[str, list[str]] = {}
    if not 1 <= len(set(names)) == len(names) <= MOST_RECIPES:
        said = _("Name 1 to %(most)s recipes, each once.")
        faults["recipes"] = [said % {"most": MOST_RECIPES}]
    for key in parameters:
        if not any(_has(name, key) for name in names):
            faults[f"parameters.{key}"] = [_("None of these recipes has this parameter.")]
    for field, limit in (("budget_hours", hours), ("budget_cost", cost)):
        if limit is not None and not limit > 0:
            faults[field] = [_("Give a number above 0.")]
    return faults


def _has(recipe: str, parameter: str) -> bool:
    found = known_recipes().get(recipe)
    return found is not None and any(one.name == parameter for one in found.parameters)


def _begin(
    actor: Actor, team: Team, plan: RunPlan, *, name: str, description: str, seed: int, margin: float,
    **columns: Any,
) -> OptimizationRun:  # fmt: skip
    row = OptimizationRun(
        **columns,
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
        place=plan.place,
        gpus=plan.gpus,
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


def _free_name(team: Team, wanted: str, *, column: str = "name") -> str:
    rows = OptimizationRun.objects.filter(team=team, **{f"{column}__startswith": wanted})
    taken = set(rows.values_list(column, flat=True))
    number = 2
    name = wanted
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    return name
