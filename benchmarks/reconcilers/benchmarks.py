"""How a benchmark advances: round after round of runs, until it can say which configuration is best."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Max, QuerySet
from django.utils.translation import gettext as _

from accounts.states import Right
from benchmarks import selectors
from benchmarks.conclusion import BenchmarkConclusion, conclude
from benchmarks.deploying import ACTOR
from benchmarks.evaluations import report_to_versions
from benchmarks.events import BenchmarkBudgetSpent, BenchmarkEnded
from benchmarks.models import Benchmark, BenchmarkRun
from benchmarks.reconcilers.estimates import AwaitEstimates, StartEstimates, is_due
from benchmarks.rounds import NextRun, PastRun, next_round
from benchmarks.search import bayesian
from benchmarks.search.staged import SearchCell, next_runs
from benchmarks.spec import BenchmarkSpec, spec_of
from benchmarks.states import BENCHMARK_ENDED, BENCHMARK_MOVES, BenchmarkState, Strategy
from common import audit, events
from common.jobs.steps import CollectJob, JobReconciler
from common.reconcile import Operation, Step, StepOutcome, kernel, move, wait

LOOK_EVERY = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class BenchmarkProgress:
    spec: BenchmarkSpec
    open_runs: int
    past: list[PastRun]
    following: list[NextRun]
    spent: str
    """Which budget is spent, in words; empty: none."""


class Advance(Step[Benchmark]):
    name = "advance"

    def observe(self, row: Benchmark, operation: Operation) -> BenchmarkProgress:
        spec = spec_of(row.spec)
        open_runs = selectors.open_runs(row).count()
        if open_runs:
            return BenchmarkProgress(spec, open_runs, [], [], "")
        past = selectors.past_runs(row)
        return BenchmarkProgress(
            spec, 0, past, _following(row, spec, past), _spent(row, spec, past, operation.at)
        )

    def settle(self, row: Benchmark, seen: BenchmarkProgress, now: datetime) -> StepOutcome:
        if seen.open_runs:
            return wait(LOOK_EVERY)
        if row.state == BenchmarkState.CANCELLING:
            return move(BenchmarkState.CANCELLED, save={"state_since": now, "ended_at": now}, after=None)
        following = seen.following
        if seen.spec.budget.runs is not None:
            following = following[: max(0, seen.spec.budget.runs - len(seen.past))]
        if following and not seen.spent:
            return wait(LOOK_EVERY, write=lambda: _begin(row, following, now))
        found = conclude(selectors.values_of(seen.past), seen.spec.objective)
        return _ended(row, found, seen.spent, now)


class BenchmarkReconciler(JobReconciler[Benchmark]):
    model = Benchmark
    moves = BENCHMARK_MOVES
    right = Right.BENCHMARKS_WRITE

    def rows(self) -> QuerySet[Benchmark]:
        return Benchmark.objects.select_related("scenario", "cluster", "team")

    def next_step(self, row: Benchmark, now: datetime) -> Step[Benchmark] | None:
        if row.state not in (BenchmarkState.RUNNING, BenchmarkState.CANCELLING):
            return None
        if row.state == BenchmarkState.RUNNING and is_due(row):
            return AwaitEstimates(self.runner) if row.job else StartEstimates(self.runner)
        return CollectJob(self.runner) if row.job else Advance()

    def on_move(self, row: Benchmark, to: str, note: str) -> None:
        audit.record(ACTOR, f"benchmark.{to}", subject=row, reason=note, team_id=row.team_id)
        if to in BENCHMARK_ENDED:
            events.publish(BenchmarkEnded(row.pk, to))


def _following(row: Benchmark, spec: BenchmarkSpec, past: list[PastRun]) -> list[NextRun]:
    cells = row.cells.filter(refusal="").select_related("version__model", "image")
    if spec.strategy == Strategy.GRID:
        return next_round([cell.pk for cell in cells], past, spec.repeats)
    found = [SearchCell(cell.pk, cell.differs_by, cell.prior) for cell in cells]
    look = bayesian.next_looks if spec.strategy == Strategy.OPTUNA else None
    lower_is_better = spec.objective.is_lower_better
    return next_runs(found, past, repeats=spec.repeats, lower_is_better=lower_is_better, look=look)


def _begin(row: Benchmark, following: list[NextRun], now: datetime) -> None:
    highest = BenchmarkRun.objects.filter(benchmark=row).aggregate(highest=Max("position"))["highest"] or 0
    for position, one in enumerate(following, highest + 1):
        repeat = BenchmarkRun.objects.filter(benchmark=row, cell=one.cell).count() + 1
        run = BenchmarkRun.objects.create(
            benchmark=row,
            cell_id=one.cell,
            repeat=repeat,
            position=position,
            fraction=one.fraction,
            state_since=now,
        )
        kernel.wake(run)


def _ended(row: Benchmark, found: BenchmarkConclusion, spent: str, now: datetime) -> StepOutcome:
    to = BenchmarkState.FAILED if found.best is None else BenchmarkState.FINISHED
    reason = spent or ("" if found.best is not None else _("No configuration has a valid run."))
    save = {"state_since": now, "ended_at": now, "reason": reason, "conclusion": found.as_json()}

    def write() -> None:
        report_to_versions(row, found)
        if spent:
            events.publish(BenchmarkBudgetSpent(row.pk))

    return move(to, note=reason, save=save, write=write, after=None)


def _spent(row: Benchmark, spec: BenchmarkSpec, past: list[PastRun], now: datetime) -> str:
    budget = spec.budget
    hours = selectors.gpu_hours_of(BenchmarkRun.objects.filter(benchmark=row), now)
    if budget.runs is not None and len(past) >= budget.runs:
        return _("The budget of %(runs)s runs is spent.") % {"runs": budget.runs}
    if selectors.is_quota_spent(row.team):
        return _("The GPU hours of team %(team)s for benchmarks are spent.") % {"team": row.team}
    if budget.gpu_hours is not None and hours >= budget.gpu_hours:
        return _("The budget of %(hours)s GPU hours is spent.") % {"hours": budget.gpu_hours}
    price = selectors.price_per_hour(row.cluster, 1)
    if budget.money is not None and price is not None and hours * price >= budget.money:
        return _("The budget of %(money)s is spent.") % {"money": budget.money}
    if budget.hours is not None and now - row.created_at >= timedelta(hours=budget.hours):
        return _("The budget of %(hours)s hours is spent.") % {"hours": budget.hours}
    return ""
