"""The jobs of runs, and the outcomes that their steps share."""

import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from json import dumps
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from clusters.backends.embedded.backend import ENVIRONMENTS
from common.errors import WrongState
from common.jobs.spec import JobLimits, JobObservation, JobSpec
from common.jobs.steps import CannotStart, StartJob, owner
from common.reconcile import Operation, StepOutcome, move
from model_store.errors import BlobMissing
from models_registry.errors import FilesUnderWay, NotFetched
from optimization.limits import RunLimits
from optimization.models import OptimizationRun
from optimization.states import OptimizationState

LOOK_EVERY = timedelta(seconds=1)
ENVIRONMENT_SECONDS = 2 * 3600
NICE = 10
"""Jobs stand back behind what serves."""
MAX_LAUNCHES = 3


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


def progress_of(seen: JobObservation) -> dict[str, Any]:
    return {"progress": dict(seen.progress)} if seen.progress else {}


def moved(to: OptimizationState, now: datetime, **columns: Any) -> StepOutcome:
    return move(to, save={"state_since": now, "progress": {}, **columns})


def ended(to: OptimizationState, now: datetime, reason: str, **columns: Any) -> StepOutcome:
    save = {"state_since": now, "ended_at": now, "reason": reason, "progress": {}, **columns}
    return move(to, note=reason, save=save)
