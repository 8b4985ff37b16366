"""The first part of a run: check the inputs, make the environment, run the recipe, import its output."""

import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from json import dumps
from typing import Any

from django.utils.translation import gettext as _

from benchmarks import leases
from benchmarks.load_orders import PACKAGE_INDEXES
from common import clock
from common.hosts import this_host
from common.jobs.rows import NEVER_LAUNCHED, NO_JOB
from common.jobs.spec import JobLimits, JobObservation, JobSpec
from common.jobs.steps import AwaitJob, StartJob, owner
from common.reconcile import Effect, Operation, Step, StepOutcome, proceed, wait
from models_registry.errors import FilesUnderWay
from models_registry.models import Version
from models_registry.services import imports
from models_registry.states import VersionState
from optimization import inputs, job_results, output
from optimization.budgets import budget_refusal, turn_of
from optimization.job_orders import making_order
from optimization.models import OptimizationRun
from optimization.planning import ACTOR
from optimization.reconcilers.jobs import (
    ENVIRONMENT_SECONDS,
    LOOK_EVERY,
    MAX_LAUNCHES,
    NICE,
    StartRunJob,
    cluster_of,
    ended,
    environments,
    handed_in,
    moved,
    program_job,
    progress_of,
)
from optimization.states import OptimizationState, RunPlace
from optimization.task_files import is_task_file

TASK_FAMILY = "evaluate"


class Prepare(Step[OptimizationRun]):
    """Read the sets and check them."""

    name = "prepare"

    def __init__(self) -> None:
        self._before = ""

    def observe(self, row: OptimizationRun, operation: Operation) -> str | None:
        """Return what is wrong with it; None: it waits for its turn, or for files that come to this host."""
        self._before = turn_of(row)
        if self._before:
            return None
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
            reason = _("Waiting for %(what)s.") % {"what": self._before} if self._before else ""
            return wait(LOOK_EVERY, save={"reason": reason})
        if seen:
            return ended(OptimizationState.FAILED, now, seen)
        if refusal := budget_refusal(row, now):
            return ended(OptimizationState.CANCELLED, now, refusal)
        row.began_at = row.began_at or now
        began: dict[str, Any] = {"began_at": row.began_at, "reason": ""}
        recipe = row.known_recipe
        is_local = row.place == RunPlace.LOCAL
        families = {
            "environment": recipe.family if recipe is not None and recipe.lock and is_local else "",
            "test_environment": TASK_FAMILY if is_task_file(row.test["path"]) else "",
        }
        if any(families.values()):
            return proceed(save={**families, **began})
        return moved(OptimizationState.RUNNING, now, **began)


def unmade_environment(row: OptimizationRun) -> str:
    """Return the column of an environment that is still to be made; empty: there is none."""
    return next(
        (
            column
            for column in ("environment", "test_environment")
            if (name := getattr(row, column)) and "-" not in name
        ),
        "",
    )


class StartEnvironment(StartJob[OptimizationRun]):
    """Make the environment of a family on this host, and test in it what it is for."""

    name = "start environment"

    def spec(self, row: OptimizationRun, op_key: str) -> JobSpec:
        column = unmade_environment(row)
        order = {"family": getattr(row, column), "root": str(environments())}
        if column == "environment":
            order["recipe"] = row.recipe
        limits = JobLimits(wall_seconds=ENVIRONMENT_SECONDS, nice=NICE)
        return JobSpec(
            op_key=op_key,
            owner=owner(row),
            argv=(sys.executable, "-m", "optimization.programs.environment"),
            environment=PACKAGE_INDEXES,
            stdin=dumps(order).encode(),
            limits=limits,
        )


class AwaitEnvironment(AwaitJob[OptimizationRun]):
    name = "await environment"
    max_launches = MAX_LAUNCHES

    def underway(self, row: OptimizationRun, seen: JobObservation) -> Mapping[str, Any]:
        return progress_of(row, seen)

    def succeeded(self, row: OptimizationRun, seen: JobObservation, now: datetime) -> StepOutcome:
        found = seen.result or {}
        if refused := found.get("refused"):
            return ended(OptimizationState.FAILED, now, str(refused), log=seen.log_tail)
        column = unmade_environment(row)
        save = {column: found["environment"], "made": {"host": seen.host}, **NEVER_LAUNCHED}
        setattr(row, column, found["environment"])
        if unmade_environment(row):
            return proceed(save={**save, **NO_JOB, "progress": {}})
        return moved(OptimizationState.RUNNING, now, **save)

    def failed(self, row: OptimizationRun, seen: JobObservation, now: datetime) -> StepOutcome:
        why = self.why_given_up(row, seen, "The making of its environment")
        return ended(OptimizationState.FAILED, now, why, log=seen.log_tail)


class StartMaking(StartRunJob):
    """Start the recipe: a process with limits, which only reads the parent's files."""

    name = "start recipe"

    def spec(self, row: OptimizationRun, op_key: str) -> JobSpec:
        place = output.directory_of(row) / "output"
        return program_job(row, op_key, making_order(row), self._place, output=place)

    def is_clear(self, row: OptimizationRun) -> bool:
        """Take the GPUs' machines, beside which no benchmark then measures."""
        if row.gpus and (cluster := cluster_of(row)) is not None:
            self._waits_for = leases.take(cluster, lease_holder(row))
        return not self._waits_for


class AwaitMaking(AwaitJob[OptimizationRun]):
    name = "await recipe"
    max_launches = MAX_LAUNCHES

    def observe(self, row: OptimizationRun, operation: Operation) -> JobObservation:
        return handed_in(row, super().observe(row, operation))

    def underway(self, row: OptimizationRun, seen: JobObservation) -> Mapping[str, Any]:
        return {**progress_of(row, seen), **_gpu_time(row)}

    def succeeded(self, row: OptimizationRun, seen: JobObservation, now: datetime) -> StepOutcome:
        made = {**(seen.result or {}), "host": seen.host}
        if refused := made.get("refused"):
            return ended(OptimizationState.FAILED, now, str(refused), log=seen.log_tail)
        save = {"made": made, "log": seen.log_tail, **_gpu_time(row), **NEVER_LAUNCHED}
        give_back = partial(leases.give_back, lease_holder(row))
        return moved(OptimizationState.STORING, now, write=give_back, **save)

    def failed(self, row: OptimizationRun, seen: JobObservation, now: datetime) -> StepOutcome:
        why = self.why_given_up(row, seen, "The recipe's process")
        return ended(OptimizationState.FAILED, now, why, log=seen.log_tail)


def lease_holder(row: OptimizationRun) -> str:
    return f"{row} ({row.pk})"


def _gpu_time(row: OptimizationRun) -> dict[str, float]:
    if not (row.gpus and row.launched_at):
        return {}
    return {"gpu_seconds": row.gpus * (clock.now() - row.launched_at).total_seconds()}


class BringOutput(Step[OptimizationRun]):
    """Bring what a job in a cluster has handed in to this host, where it is imported."""

    name = "bring output"
    effect = Effect.ABSOLUTE

    def act(self, row: OptimizationRun, operation: Operation) -> None:
        job_results.bring_files(row, output.directory_of(row) / "output")

    def settle(self, row: OptimizationRun, seen: Any, now: datetime) -> StepOutcome:
        return proceed(save={"made": {**row.made, "host": this_host()}})


class StoreChild(Step[OptimizationRun]):
    """Import the output as a version, and wait until it is ready."""

    name = "store"

    def observe(self, row: OptimizationRun, operation: Operation) -> Version | None:
        return row.child and Version.objects.get(pk=row.child.pk)

    def settle(self, row: OptimizationRun, seen: Version | None, now: datetime) -> StepOutcome:
        if seen is None:
            return wait(timedelta(0), write=lambda: _begin_child(row))
        if seen.state == VersionState.READY:
            return moved(OptimizationState.CHECKING, now, reason="")
        if seen.state == VersionState.IMPORTING:
            return wait(LOOK_EVERY, save={"reason": seen.reason})
        refused = _("Its files are not accepted: %(reason)s") % {"reason": seen.reason}
        return ended(OptimizationState.FAILED, now, refused)


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
