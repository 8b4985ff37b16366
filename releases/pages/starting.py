"""The candidate's workers while a step starts them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from clusters.selectors import DeploymentStatus
from releases import bake
from releases.models import Release, ReleaseStep
from releases.pages import lanes
from releases.plans.step import kinds_with
from releases.states import StepState


@dataclass(frozen=True, slots=True)
class StartingWorkers:
    """Workers on their way up."""

    since: datetime | None
    status: DeploymentStatus
    usual_seconds: float | None
    """What it took the last time for this version on this service."""


def starting_workers(release: Release, steps: Sequence[ReleaseStep]) -> StartingWorkers | None:
    """Return the workers that the step at hand starts; None at another step."""
    row = next((one for one in steps if one.index == release.step_index), None)
    if not release.in_motion or row is None:
        return None
    if row.kind not in kinds_with("starts_workers") or row.state != StepState.RUNNING:
        return None
    status = lanes.status_of(release.candidate_deployment)
    usual = bake.start_seconds(release.service_id, release.version_id, trait="starts_workers")
    return StartingWorkers(row.started_at, status, usual) if status else None
