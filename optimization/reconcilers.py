"""The course of a run: make, store, check accuracy, benchmark; each step by any worker, after any crash."""

import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from json import dumps
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from accounts.states import Right
from benchmarks.errors import BenchmarkOver
from benchmarks.models import Benchmark
from benchmarks.services import cancel_benchmark, create_benchmark
from benchmarks.states import BENCHMARK_ENDED, BenchmarkState
from common import audit
from common.errors import SlipwayError, WrongState
from common.jobs.rows import NEVER_LAUNCHED, NO_JOB
from common.jobs.spec import JobLimits, JobObservation, JobSpec
from common.jobs.steps import AwaitJob, CollectJob, JobReconciler, StartJob, StopJob, owner
from common.reconcile import Effect, Operation, Step, StepOutcome, move, pulses, rest, wait
from model_store.backends.base import Ingested
from model_store.errors import BlobMissing
from models_registry import files
from models_registry.errors import FilesUnderWay, NotFetched
from models_registry.models import Version
from models_registry.services import imports
from models_registry.states import VersionState
from optimization import inputs, output
from optimization.accuracy import AccuracyOutcome, outcome_of, read_scores
from optimization.limits import RunLimits
from optimization.models import OptimizationRun
from optimization.planning import ACTOR, benchmark_spec
from optimization.programs.scoring import SCORES
from optimization.states import ENDED, MOVES, OptimizationState
from optimization.verdicts import (
    accuracy_gate,
    benchmark_name,
    benchmark_of,
    keep_check,
    ratios_beside_parent,
    speed_gate,
)

LOOK_EVERY = timedelta(seconds=1)
NICE = 10
"""Jobs stand back behind what serves."""
MAX_LAUNCHES = 3


class Prepare(Step[OptimizationRun]):
    """Read the sets and check them."""

    name = "prepare"

    def observe(self, row: OptimizationRun, operation: Operation) -> str | None:
        """Return what is wrong with it; None: its files are on their way to this host."""
        recipe = row.known_recipe
        if recipe is None or recipe.digest != row.recipe_digest:
            return _("The recipe %(name)s has changed since. Start it again.") % {"name": row.recipe}
        for version in (row.parent, row.test_version, row.calibration_version):
            if version is not None and version.state != VersionState.READY:
                return _("%(version)s is not ready any more.") % {"version": version}
        try:
            return inputs.fault_of(row)
        except FilesUnderWay:
            return None

    def settle(self, row: OptimizationRun, seen: str | None, now: datetime) -> StepOutcome:
        if seen is None:
            return wait(LOOK_EVERY)
        if seen:
            return _ended(OptimizationState.FAILED, now, seen)
        return _moved(OptimizationState.RUNNING, now)


class StartRunJob(StartJob[OptimizationRun]):
    """Start a job that reads the files of versions, once these are on this host."""

    def act(self, row: OptimizationRun, operation: Operation) -> None:
        try:
            super().act(row, operation)
        except FilesUnderWay:
            return
        except (WrongState, BlobMissing, NotFetched) as error:
            self._refusal = str(error)

    def refused(self, row: OptimizationRun, why: str, now: datetime) -> StepOutcome:
        return _ended(OptimizationState.FAILED, now, why)


class StartMaking(StartRunJob):
    """Start the recipe: a process with limits, which only reads the parent's files."""

    name = "start recipe"

    def spec(self, row: OptimizationRun, op_key: str) -> JobSpec:
        recipe, limits = row.known_recipe, RunLimits.from_json(row.limits)
        assert recipe is not None  # noqa: S101 (as `Prepare` saw)
        order = {
            "module": recipe.module,
            "source": str(files.materialise(row.parent)),
            "output": str(output.directory_of(row) / "output"),
            "parameters": row.parameters,
            "seed": row.seed,
            "calibration": (calibration := inputs.calibration_path(row)) and str(calibration),
        }
        return _job(row, op_key, "optimization.programs.making", order, limits)


class AwaitMaking(AwaitJob[OptimizationRun]):
    name = "await recipe"
    max_launches = MAX_LAUNCHES

    def underway(self, row: OptimizationRun, seen: JobObservation) -> Mapping[str, Any]:
        return _progress(seen)

    def succeeded(self, row: OptimizationRun, seen: JobObservation, now: datetime) -> StepOutcome:
        made = {**(seen.result or {}), "host": seen.host}
        if refused := made.get("refused"):
            return _ended(OptimizationState.FAILED, now, str(refused), log=seen.log_tail)
        return _moved(OptimizationState.STORING, now, made=made, log=seen.log_tail, **NEVER_LAUNCHED)

    def failed(self, row: OptimizationRun, seen: JobObservation, now: datetime) -> StepOutcome:
        why = self.why_given_up(row, seen, "The recipe's process")
        return _ended(OptimizationState.FAILED, now, why, log=seen.log_tail)


class StoreChild(Step[OptimizationRun]):
    """Import the output as a version, and wait until it is ready."""

    name = "store"

    def observe(self, row: OptimizationRun, operation: Operation) -> Version | None:
        return row.child and Version.objects.get(pk=row.child.pk)

    def settle(self, row: OptimizationRun, seen: Version | None, now: datetime) -> StepOutcome:
        if seen is None:
            return wait(timedelta(0), write=lambda: _begin_child(row))
        if seen.state == VersionState.READY:
            return _moved(OptimizationState.CHECKING, now, reason="")
        if seen.state == VersionState.IMPORTING:
            return wait(LOOK_EVERY, save={"reason": seen.reason})
        refused = _("Its files are not accepted: %(reason)s") % {"reason": seen.reason}
        return _ended(OptimizationState.FAILED, now, refused)


class StartScoring(StartRunJob):
    """Let parent and child answer the same items."""

    name = "start accuracy check"

    def spec(self, row: OptimizationRun, op_key: str) -> JobSpec:
        assert row.child is not None  # noqa: S101 (stored before)
        order = {
            "parent": str(files.materialise(row.parent)),
            "child": str(files.materialise(row.child)),
            "test": str(inputs.test_path(row)),
            "output": str(output.directory_of(row)),
        }
        return _job(row, op_key, "optimization.programs.scoring", order, RunLimits.from_json(row.limits))


class AwaitScoring(AwaitJob[OptimizationRun]):
    name = "await accuracy check"
    max_launches = MAX_LAUNCHES

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._outcome: AccuracyOutcome | None = None
        self._held: Ingested | None = None

    def observe(self, row: OptimizationRun, operation: Operation) -> JobObservation:
        seen = super().observe(row, operation)
        if seen.result is not None and "refused" not in seen.result:
            scores = read_scores(output.directory_of(row) / SCORES)
            self._outcome = outcome_of(scores, margin_percent=row.margin)
            self._held = output.keep_scores(row)
        return seen

    def underway(self, row: OptimizationRun, seen: JobObservation) -> Mapping[str, Any]:
        return _progress(seen)

    def succeeded(self, row: OptimizationRun, seen: JobObservation, now: datetime) -> StepOutcome:
        if refused := (seen.result or {}).get("refused"):
            return _ended(OptimizationState.FAILED, now, str(refused), log=seen.log_tail)
        outcome, held = self._outcome, self._held
        assert outcome is not None  # noqa: S101 (as observed)
        assert held is not None  # noqa: S101
        to, reason = accuracy_gate(outcome)
        save = {"state_since": now, "reason": reason, "progress": {}, **NEVER_LAUNCHED}
        if to in ENDED:
            save["ended_at"] = now
        return move(to, note=reason, save=save, write=lambda: keep_check(row, outcome, held, now))

    def failed(self, row: OptimizationRun, seen: JobObservation, now: datetime) -> StepOutcome:
        why = self.why_given_up(row, seen, "The accuracy check")
        return _ended(OptimizationState.FAILED, now, why, log=seen.log_tail)


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
            return _ended(OptimizationState.FAILED, now, self._refusal or _("Its benchmark is gone."))
        if seen.state not in BENCHMARK_ENDED:
            return wait(LOOK_EVERY, save={"benchmark": seen})
        if seen.state != BenchmarkState.FINISHED:
            said = _("Its benchmark is %(state)s. %(reason)s") % {
                "state": seen.get_state_display().lower(), "reason": seen.reason
            }  # fmt: skip
            return _ended(OptimizationState.FAILED, now, said.strip(), benchmark=seen)
        ratios = ratios_beside_parent(row, seen)
        to, reason = speed_gate(ratios, float(row.benchmark_order["gain"]))
        speed = [one.as_json() for one in ratios]
        return _ended(to, now, reason, benchmark=seen, speed=speed)


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
        return _ended(OptimizationState.CANCELLED, now, row.reason)


class Cleanup(CollectJob[OptimizationRun]):
    """Remove what the run has left on its host."""

    name = "clean up"

    def act(self, row: OptimizationRun, operation: Operation) -> None:
        super().act(row, operation)
        if not self._lives:
            output.remove_directory(row)
            output.forget_staging(row)

    def stopped(self, row: OptimizationRun, now: datetime) -> StepOutcome:
        return rest(save={**NO_JOB, "is_held": False})


class OptimizationReconciler(JobReconciler[OptimizationRun]):
    model = OptimizationRun
    moves = MOVES
    right = Right.OPTIMIZATIONS_WRITE

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
        match row.state:
            case OptimizationState.PREPARING:
                return Prepare()
            case OptimizationState.RUNNING:
                return AwaitMaking(self.runner) if row.job else StartMaking(self.runner)
            case OptimizationState.STORING:
                return StoreChild()
            case OptimizationState.CHECKING:
                return AwaitScoring(self.runner) if row.job else StartScoring(self.runner)
            case OptimizationState.BENCHMARKING:
                return RunBenchmark()
            case OptimizationState.CANCELLING:
                return StopAll(self.runner)
        return Cleanup(self.runner) if row.is_held else None

    def on_move(self, row: OptimizationRun, to: str, note: str) -> None:
        audit.record(ACTOR, f"optimization.{to}", subject=row, reason=note, team_id=row.team_id)


def _job(
    row: OptimizationRun, op_key: str, module: str, order: Mapping[str, Any], limits: RunLimits
) -> JobSpec:
    return JobSpec(
        op_key=op_key,
        owner=owner(row),
        argv=(sys.executable, "-m", module),
        stdin=dumps(order).encode(),
        limits=JobLimits(
            wall_seconds=limits.wall_seconds, memory_bytes=limits.address_bytes, network=False, nice=NICE
        ),
    )


def _progress(seen: JobObservation) -> dict[str, Any]:
    return {"progress": dict(seen.progress)} if seen.progress else {}


def _moved(to: OptimizationState, now: datetime, **columns: Any) -> StepOutcome:
    return move(to, save={"state_since": now, "progress": {}, **columns})


def _ended(to: OptimizationState, now: datetime, reason: str, **columns: Any) -> StepOutcome:
    save = {"state_since": now, "ended_at": now, "reason": reason, "progress": {}, **columns}
    return move(to, note=reason, save=save)


def _begin_child(row: OptimizationRun) -> None:
    child = Version(
        model=row.parent.model,
        source=output.source_of(row),
        message=f"{row.recipe} of {row.parent}",  # untranslated
        author_name=row.created_by,
        parent=row.parent,
        lineage={
            "base_model": str(row.parent),
            "job": f"optimization {row.name}",  # untranslated
            "recipe": row.recipe,
            "recipe_digest": row.recipe_digest,
            "parameters": row.parameters,
            "seed": row.seed,
            "parent_digest": row.parent.digest,
            "libraries": row.made["libraries"],
            **({"calibration": row.calibration} if row.calibration else {}),
        },
    )
    imports.begin(child, actor=ACTOR)
    OptimizationRun.objects.filter(pk=row.pk).update(child=child)
