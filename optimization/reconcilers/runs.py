"""The course of a run: make, store, check accuracy, benchmark; each step by any worker, after any crash."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from accounts.states import Right
from benchmarks import leases
from benchmarks.deploying import job_place
from benchmarks.errors import BenchmarkOver
from benchmarks.models import Benchmark
from benchmarks.services import cancel_benchmark, create_benchmark
from benchmarks.states import BENCHMARK_ENDED, BenchmarkState
from clusters.backends.base import ClusterBackend
from clusters.backends.configured import backend_of
from clusters.models import Cluster
from common import audit, events
from common.errors import SlipwayError, WrongState
from common.jobs.rows import NEVER_LAUNCHED, NO_JOB
from common.jobs.runners.base import JobRunner
from common.jobs.spec import JobObservation, JobSpec
from common.jobs.steps import AwaitJob, CollectJob, JobReconciler, StopJob
from common.reconcile import Effect, Operation, Step, StepOutcome, move, pulses, rest, wait
from model_store.backends.base import Ingested
from models_registry.models import Version
from models_registry.services import imports
from models_registry.states import VersionState
from optimization import inputs, job_results, job_tokens, output
from optimization.accuracy import AccuracyOutcome, outcome_of, read_scores
from optimization.events import OptimizationEnded
from optimization.job_orders import scoring_order
from optimization.models import OptimizationRun
from optimization.planning import ACTOR, benchmark_spec
from optimization.programs.scoring import SCORES
from optimization.reconcilers.jobs import (
    LOOK_EVERY,
    MAX_LAUNCHES,
    StartRunJob,
    cluster_of,
    ended,
    handed_in,
    program_job,
    progress_of,
    recipe_job,
)
from optimization.reconcilers.making import (
    AwaitEnvironment,
    AwaitMaking,
    BringOutput,
    Prepare,
    StartEnvironment,
    StartMaking,
    StoreChild,
    lease_holder,
    unmade_environment,
)
from optimization.scorer_files import is_scorer
from optimization.speed import picture_ratios
from optimization.states import ENDED, MOVES, OptimizationState, RunPlace
from optimization.verdicts import (
    accuracy_gate,
    benchmark_name,
    benchmark_of,
    keep_check,
    note_trials,
    speed_gate,
    speed_ratios,
)


class StartScoring(StartRunJob):
    """Let parent and child answer the same items."""

    name = "start accuracy check"

    def spec(self, row: OptimizationRun, op_key: str) -> JobSpec:
        order, place = scoring_order(row), output.directory_of(row)
        if (task := inputs.task_of(row)) is not None:
            module = "optimization.programs.task_scoring"
            given = {**order.here(), "output": str(place), "task": task}
            return recipe_job(row, op_key, module, given, environment=row.test_environment)
        if is_scorer(row.test["path"]):
            module = "optimization.programs.script_scoring"
            given = {**order.here(), "output": str(place)}
            return recipe_job(row, op_key, module, given, environment="")
        return program_job(row, op_key, order, self._place, output=place)


class AwaitScoring(AwaitJob[OptimizationRun]):
    name = "await accuracy check"
    max_launches = MAX_LAUNCHES

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._outcome: AccuracyOutcome | None = None
        self._held: Ingested | None = None

    def observe(self, row: OptimizationRun, operation: Operation) -> JobObservation:
        seen = handed_in(row, super().observe(row, operation))
        if seen.result is not None and "refused" not in seen.result:
            job_results.bring_files(row, output.directory_of(row))
            scores = read_scores(output.directory_of(row) / SCORES)
            self._outcome = outcome_of(scores, margin_percent=row.margin)
            self._held = output.keep_scores(row)
        return seen

    def underway(self, row: OptimizationRun, seen: JobObservation) -> Mapping[str, Any]:
        return progress_of(row, seen)

    def succeeded(self, row: OptimizationRun, seen: JobObservation, now: datetime) -> StepOutcome:
        if refused := (seen.result or {}).get("refused"):
            return ended(OptimizationState.FAILED, now, str(refused), log=seen.log_tail)
        outcome, held = self._outcome, self._held
        assert outcome is not None  # noqa: S101 (as observed)
        assert held is not None  # noqa: S101
        to, reason = accuracy_gate(outcome)
        save: dict[str, Any] = {}
        if to == OptimizationState.BENCHMARKING and inputs.draws_pictures(row):
            ratios = picture_ratios((seen.result or {})["seconds"])
            to, reason = speed_gate(ratios, float(row.benchmark_order["gain"]))
            save["speed"] = [one.as_json() for one in ratios]
        save |= {"state_since": now, "reason": reason, "progress": {}, **NEVER_LAUNCHED}
        if to in ENDED:
            save["ended_at"] = now
        return move(to, note=reason, save=save, write=lambda: keep_check(row, outcome, held, now))

    def failed(self, row: OptimizationRun, seen: JobObservation, now: datetime) -> StepOutcome:
        why = self.why_given_up(row, seen, "The accuracy check")
        return ended(OptimizationState.FAILED, now, why, log=seen.log_tail)


class RunBenchmark(Step[OptimizationRun]):
    """Benchmark parent and child in turn, under the load that was given."""

    name = "benchmark"
    effect = Effect.CREATE

    def __init__(self) -> None:
        self._refusal = ""

    def act(self, row: OptimizationRun, operation: Operation) -> None:
        if benchmark_of(row) is not None:
            return
        order = row.benchmark_order
        try:
            create_benchmark(
                actor=ACTOR,
                team=row.team,
                name=benchmark_name(row),
                cluster=order["cluster"],
                scenario=order["scenario"],
                spec=benchmark_spec(order, [str(row.parent), str(row.child)]),
            )
        except SlipwayError as error:
            self._refusal = str(error)

    def observe(self, row: OptimizationRun, operation: Operation) -> Benchmark | None:
        return benchmark_of(row)

    def settle(self, row: OptimizationRun, seen: Benchmark | None, now: datetime) -> StepOutcome:
        if seen is None:
            return ended(OptimizationState.FAILED, now, self._refusal or _("Its benchmark is gone."))
        if seen.state not in BENCHMARK_ENDED:
            return wait(LOOK_EVERY, save={"benchmark": seen})
        if seen.state != BenchmarkState.FINISHED:
            said = _("Its benchmark is %(state)s. %(reason)s") % {
                "state": seen.get_state_display().lower(), "reason": seen.reason
            }  # fmt: skip
            return ended(OptimizationState.FAILED, now, said.strip(), benchmark=seen)
        ratios = speed_ratios(row, seen)
        to, reason = speed_gate(ratios, float(row.benchmark_order["gain"]))
        speed = [one.as_json() for one in ratios]
        write = partial(note_trials, row, seen)
        return ended(to, now, reason, write=write, benchmark=seen, speed=speed)


class StopAll(StopJob[OptimizationRun]):
    """Stop the job, the import and the benchmark of a run that is cancelled."""

    name = "stop all"

    def act(self, row: OptimizationRun, operation: Operation) -> None:
        super().act(row, operation)
        child = row.child and Version.objects.select_related("model__team").get(pk=row.child.pk)
        if child is not None and child.state == VersionState.IMPORTING:
            with suppress(WrongState):
                imports.stop(child, actor=ACTOR, reason=str(row))
        if (benchmark := benchmark_of(row)) is not None:
            with suppress(BenchmarkOver):
                cancel_benchmark(benchmark, actor=ACTOR, reason=str(row))

    def stopped(self, row: OptimizationRun, now: datetime) -> StepOutcome:
        return ended(OptimizationState.CANCELLED, now, row.reason)


class Cleanup(CollectJob[OptimizationRun]):
    """Remove what the run has left on its host."""

    name = "clean up"

    def act(self, row: OptimizationRun, operation: Operation) -> None:
        super().act(row, operation)
        job_tokens.revoke(row)
        if not self._lives:
            leases.give_back(lease_holder(row))
            output.remove_directory(row)
            output.forget_staging(row)
            job_results.forget_staging(row)

    def stopped(self, row: OptimizationRun, now: datetime) -> StepOutcome:
        return rest(save={**NO_JOB, "is_held": False})


class OptimizationReconciler(JobReconciler[OptimizationRun]):
    model = OptimizationRun
    moves = MOVES
    right = Right.OPTIMIZATIONS_WRITE

    def __init__(
        self,
        runner: JobRunner | None = None,
        *,
        backend_of: Callable[[Cluster], ClusterBackend] = backend_of,
    ) -> None:
        super().__init__(runner)
        self._backend_of = backend_of

    def lane_of(self, row: OptimizationRun) -> str:
        cluster = cluster_of(row)
        return cluster.own_lane if cluster is not None else ""

    def rows(self) -> QuerySet[OptimizationRun]:
        versions = ("parent", "child", "test_version", "calibration_version")
        return OptimizationRun.objects.select_related("team", *(f"{one}__model__team" for one in versions))

    def host_of(self, row: OptimizationRun) -> str:
        """Return the host of the output, as long as it or the scores may lie there."""
        there = str(row.made.get("host", "")) if row.is_held else ""
        if there and (there == self.runner.host or there in pulses.living_hosts()):
            return there
        return super().host_of(row)

    def next_step(self, row: OptimizationRun, now: datetime) -> Step[OptimizationRun] | None:
        cluster = cluster_of(row)
        place = job_place(cluster, self._backend_of) if cluster is not None else None
        runner = place.runner if place else self.runner
        match row.state:
            case OptimizationState.PREPARING:
                if not unmade_environment(row):
                    return Prepare()
                return AwaitEnvironment(self.runner) if row.job else StartEnvironment(self.runner)
            case OptimizationState.RUNNING:
                return AwaitMaking(runner) if row.job else StartMaking(runner, place)
            case OptimizationState.STORING:
                if row.place == RunPlace.CLUSTER and not row.made.get("host"):
                    return BringOutput()
                return StoreChild()
            case OptimizationState.CHECKING:
                return AwaitScoring(runner) if row.job else StartScoring(runner, place)
            case OptimizationState.BENCHMARKING:
                return RunBenchmark()
            case OptimizationState.CANCELLING:
                return StopAll(runner)
        return Cleanup(runner) if row.is_held else None

    def on_move(self, row: OptimizationRun, to: str, note: str) -> None:
        audit.record(ACTOR, f"optimization.{to}", subject=row, reason=note, team_id=row.team_id)
        if to in ENDED:
            events.publish(OptimizationEnded(row.pk, to))
