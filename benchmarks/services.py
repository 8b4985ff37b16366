"""Every write of benchmarks that people ask for."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from accounts import team_rows
from accounts.models import Team
from accounts.services.rights import require
from accounts.states import Right
from benchmarks import selectors
from benchmarks.errors import BenchmarkOver, InvalidBenchmark
from benchmarks.load.scenario import LoadScenario
from benchmarks.models import Benchmark, BenchmarkCell, BenchmarkRun, BenchmarkScenario
from benchmarks.planning import BenchmarkPlan, plan_benchmark
from benchmarks.prior import prior_knowledge
from benchmarks.spec import MOST_RUNS
from benchmarks.states import BenchmarkState, RunState, Strategy
from common import audit
from common.actor import Actor
from common.reconcile import kernel


def create_benchmark(
    *,
    actor: Actor,
    team: Team,
    name: str,
    cluster: str,
    scenario: Mapping[str, Any],
    spec: Mapping[str, Any],
    description: str = "",
    resource: str | None = None,
) -> Benchmark:
    """Start a benchmark. `resource`: uid of the custom resource that orders it. Raises NotAllowed, Conflict,
    InvalidBenchmark with the names of the fields."""
    plan = plan_benchmark(actor=actor, team=team, cluster=cluster, scenario=scenario, spec=spec)
    _refuse(plan, team)
    row = Benchmark(
        team=team,
        name=name,
        description=description,
        cluster=plan.cluster,
        spec=plan.spec.as_json(),
        resource=resource,
    )
    versions = {one.version.pk: one.version for one in plan.cells}
    known = {
        pk: prior_knowledge(version, team, plan.cluster, plan.scenario) for pk, version in versions.items()
    }
    with transaction.atomic():
        row.scenario = _scenario(actor, team, plan.scenario)
        row.created_at = row.state_since = kernel.clock()
        team_rows.create(row, actor=actor, right=Right.BENCHMARKS_WRITE)
        BenchmarkCell.objects.bulk_create(
            BenchmarkCell(
                benchmark=row,
                position=position,
                version=one.version,
                engine=one.plan.engine,
                image=one.image,
                machine=one.plan.machine,
                parameters=dict(one.plan.parameters),
                digest=one.plan.digest,
                refusal=one.refusal,
                prior=known[one.version.pk].of(
                    one.plan.engine, one.plan.machine, one.plan.parameters, gpus=one.gpus
                ),
            )
            for position, one in enumerate(plan.cells, 1)
        )
        kernel.wake(row)
    return row


def cancel_benchmark(row: Benchmark, *, actor: Actor, reason: str = "") -> Benchmark:
    """Stop what runs and remove all of it. Raises NotAllowed, BenchmarkOver."""
    require(actor, Right.BENCHMARKS_WRITE, row.team)
    now = kernel.clock()
    with transaction.atomic():
        where = {"state": BenchmarkState.RUNNING}
        if not kernel.interrupt(
            row, to=BenchmarkState.CANCELLING, where=where, state_since=now, reason=reason
        ):
            raise BenchmarkOver(_("%(name)s is not running any more.") % {"name": row.name})
        audit.record(actor, "benchmark.cancel", subject=row, reason=reason, team_id=row.team.pk)
        for run in selectors.open_runs(row):
            _cancel_run(run)
    row.refresh_from_db()
    return row


def _cancel_run(run: BenchmarkRun) -> None:
    """Cancel a run in the caller's transaction."""
    now = kernel.clock()
    if run.state == RunState.WAITING:
        where = {"state": RunState.WAITING}
        if kernel.interrupt(run, to=RunState.CANCELLED, where=where, state_since=now, ended_at=now):
            return
        run.refresh_from_db()
    if run.state in (RunState.DEPLOYING, RunState.MEASURING, RunState.COLLECTING):
        kernel.interrupt(run, to=RunState.REMOVING, state_since=now, outcome=RunState.CANCELLED)


def _scenario(actor: Actor, team: Team, load: LoadScenario) -> BenchmarkScenario:
    """Return the team's scenario of this content, made when there is none."""
    digest = load.digest
    found = BenchmarkScenario.objects.filter(team=team, digest=digest).first()
    return found or BenchmarkScenario.objects.create(
        team=team, name=digest[:12], content=load.as_json(), digest=digest, created_by=actor.name
    )


def _refuse(plan: BenchmarkPlan, team: Team) -> None:
    if not plan.runnable:
        raise InvalidBenchmark(fields={"space": [plan.cells[0].refusal]})
    for name, labels in (plan.spec.space.machines or {"": {}}).items():
        if refusal := selectors.machines_refusal(plan.cluster, labels):
            raise InvalidBenchmark(fields={f"space.machines.{name}" if name else "cluster": [refusal]})
    if lacking := selectors.load_refusal(plan.cluster):
        raise InvalidBenchmark(fields={"cluster": [lacking]})
    quota: float = settings.SLIPWAY_BENCHMARK_GPU_HOURS
    used = selectors.gpu_hours_used(team) if quota and plan.gpu_hours else 0.0
    if quota and used + plan.gpu_hours > quota:
        spent = _(
            "Team %(team)s has used %(used)s of %(quota)s GPU hours in 30 days; this takes up to %(more)s."
        )
        told = {"team": team, "quota": f"{quota:g}", "used": f"{used:.1f}", "more": f"{plan.gpu_hours:.1f}"}
        raise InvalidBenchmark(fields={"budget.gpu_hours": [spent % told]})
    is_grid = plan.spec.strategy == Strategy.GRID
    if is_grid and len(plan.runnable) * plan.spec.repeats > MOST_RUNS and plan.spec.budget.runs is None:
        raise InvalidBenchmark(
            fields={"budget.runs": [_("More than %(most)s runs: give a budget.") % {"most": MOST_RUNS}]}
        )
