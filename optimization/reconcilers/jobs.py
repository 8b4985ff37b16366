"""The jobs of runs, and the outcomes that their steps share."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from json import dumps
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from benchmarks.selectors import machines_for_load, machines_with_gpus
from clusters.backends.embedded.backend import ENVIRONMENTS
from clusters.backends.extras import ClusterJobPlace
from clusters.backends.node_operations import OperationUnsupported
from clusters.models import Cluster
from common.errors import WrongState
from common.jobs.runners.base import JobRunner
from common.jobs.spec import JobContainer, JobLimits, JobObservation, JobSpec, JobState
from common.jobs.steps import CannotStart, StartJob, owner
from common.reconcile import Operation, StepOutcome, move, wait
from model_store.errors import BlobMissing
from models_registry.errors import FilesUnderWay, NotFetched
from optimization import job_tokens
from optimization.family_images import image_of
from optimization.job_orders import MAKING, ProgramOrder
from optimization.limits import RunLimits
from optimization.models import OptimizationRun
from optimization.states import OptimizationState, RunPlace

LOOK_EVERY = timedelta(seconds=1)
ENVIRONMENT_SECONDS = 2 * 3600
NICE = 10
"""Jobs stand back behind what serves."""
MAX_LAUNCHES = 3


class StartRunJob(StartJob[OptimizationRun]):
    """Start a job that reads the files of versions: here once they are on this host, or in the cluster."""

    def __init__(self, runner: JobRunner, place: ClusterJobPlace | None = None) -> None:
        super().__init__(runner)
        self._place = place
        self._waits_for = ""

    def act(self, row: OptimizationRun, operation: Operation) -> None:
        try:
            super().act(row, operation)
        except FilesUnderWay:
            return
        except (WrongState, BlobMissing, NotFetched, OperationUnsupported) as error:
            self._refusal = str(error)

    def settle(self, row: OptimizationRun, seen: Any, now: datetime) -> StepOutcome:
        if self._waits_for:
            return wait(LOOK_EVERY, save={"reason": _("Waiting for %(what)s.") % {"what": self._waits_for}})
        return super().settle(row, seen, now)

    def begun(self, row: OptimizationRun) -> Mapping[str, Any]:
        return {"reason": ""}

    def refused(self, row: OptimizationRun, why: str, now: datetime) -> StepOutcome:
        return ended(OptimizationState.FAILED, now, why)


def environments() -> Path:
    """Return where environments of this host lie."""
    return Path(settings.SLIPWAY_RUN_DIR).parent / ENVIRONMENTS


def recipe_job(
    row: OptimizationRun, op_key: str, module: str, order: Mapping[str, Any], *, environment: str
) -> JobSpec:
    """Return a job within the run's limits and without a network. Raises CannotStart.

    `environment`: name of its directory; empty: it runs where Slipway does.
    """
    limits, python = RunLimits.from_json(row.limits), sys.executable
    if environment:
        place = environments() / environment
        if not place.exists():
            raise CannotStart(_("The environment of the recipe is gone. Start it again."))
        order, python = {**order, "environment": str(place)}, str(place / "bin" / "python")
    return JobSpec(
        op_key=op_key,
        owner=owner(row),
        argv=(python, "-m", module),
        stdin=dumps(order).encode(),
        limits=JobLimits(
            wall_seconds=limits.wall_seconds, memory_bytes=limits.address_bytes, network=False, nice=NICE
        ),
    )


def cluster_of(row: OptimizationRun) -> Cluster | None:
    """Return the cluster of a run whose jobs run in one; None: here, or it is gone."""
    if row.place != RunPlace.CLUSTER:
        return None
    return Cluster.objects.present().filter(name=row.benchmark_order["cluster"]).first()


def program_job(
    row: OptimizationRun, op_key: str, order: ProgramOrder, place: ClusterJobPlace | None, *, output: Path
) -> JobSpec:
    """Return the job of a program, here or in the cluster. Raises CannotStart, WrongState and what
    `files.materialise` raises."""
    if row.place == RunPlace.CLUSTER:
        return _cluster_job(row, op_key, order, place)
    environment = row.environment if order.family else ""
    given = {**order.here(), "output": str(output)}
    if order.program == MAKING:
        given["checkpoint"] = str(output.with_name("checkpoint"))
    return recipe_job(row, op_key, order.program, given, environment=environment)


def _cluster_job(
    row: OptimizationRun, op_key: str, order: ProgramOrder, place: ClusterJobPlace | None
) -> JobSpec:
    cluster = cluster_of(row)
    if cluster is None or place is None or not place.control_plane:
        raise CannotStart(_("Its cluster is gone, or its settings have no address of Slipway (store_url)."))
    limits = RunLimits.from_json(row.limits)
    gpus = row.gpus if order.program == MAKING else 0
    machines = machines_with_gpus(cluster) if gpus else machines_for_load(cluster)
    if not machines:
        raise CannotStart(_("The cluster has no machine that takes this job now. Start it again later."))
    spec = JobSpec(
        op_key=op_key,
        owner=owner(row),
        argv=("python", "-m", "optimization.programs.in_cluster", "--fetch", place.runner.input_file),
        limits=JobLimits(wall_seconds=limits.wall_seconds, memory_bytes=limits.container_bytes),
        container=JobContainer(image=image_of(order.family, row.team), machines=tuple(machines), gpus=gpus),
    )
    if place.runner.observe(spec.name).state is JobState.GONE:
        # No job has the token of an attempt that did not come so far.
        job_tokens.revoke(row)
        OptimizationRun.objects.filter(pk=row.pk).update(handed_in=None)
    token = job_tokens.issue(row, cluster, lives_seconds=limits.wall_seconds)
    return replace(spec, stdin=dumps({"url": place.control_plane, "token": token}).encode())


def handed_in(row: OptimizationRun, seen: JobObservation) -> JobObservation:
    """Return the observation of a job with what it has handed in, if it is one in a cluster."""
    if row.place != RunPlace.CLUSTER or seen.is_live:
        return seen
    # Read after the job was looked at: one that has ended has handed in all it will.
    row.handed_in = OptimizationRun.objects.values_list("handed_in", flat=True).get(pk=row.pk)
    return replace(seen, result=(row.handed_in or {}).get("result"))


def progress_of(row: OptimizationRun, seen: JobObservation) -> dict[str, Any]:
    """Return the columns of a run while its job is there; one in a cluster tells its progress over REST."""
    found: dict[str, Any] = {"progress": dict(seen.progress)} if seen.progress else {}
    if row.place == RunPlace.CLUSTER:
        found["reason"] = seen.why if seen.state is JobState.WAITING else ""
    return found


def moved(
    to: OptimizationState, now: datetime, *, write: Callable[[], None] | None = None, **columns: Any
) -> StepOutcome:
    return move(to, save={"state_since": now, "progress": {}, **columns}, write=write)


def ended(
    to: OptimizationState,
    now: datetime,
    reason: str,
    *,
    write: Callable[[], None] | None = None,
    **columns: Any,
) -> StepOutcome:
    save = {"state_since": now, "ended_at": now, "reason": reason, "progress": {}, **columns}
    return move(to, note=reason, save=save, write=write)
