"""The way back from a promoted release: at once while old workers are kept warm, else after a start."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from clusters import selectors as fleet
from clusters.errors import DeploymentMissing
from clusters.notes import DeploymentNote
from clusters.states import GONE, DeploymentState
from releases.models import Release, ReleaseStep
from releases.plans.builtin import WARM_ROLLBACK
from releases.plans.step import kinds_with
from releases.states import ReleaseState, StepState


@dataclass(frozen=True, slots=True)
class RollbackEstimate:
    """Estimate of what rolling a promoted release back takes."""

    warm_workers: int
    """Ready, without traffic; 0: workers must start first."""
    warm_until: datetime | None
    seconds: float | None
    """About how long workers take to start and to pass the smoke test, as they did last; None: not known."""


def way_back(release: Release) -> RollbackEstimate:
    """Return the way back to the version before, by three queries at most."""
    if workers := warm_workers(release):
        return RollbackEstimate(workers, release.bake_until, None)
    return RollbackEstimate(0, None, start_seconds(release.service_id, release.from_version_id))


def warm_workers(release: Release) -> int:
    if release.bake_until is None:
        return 0
    try:
        status = fleet.deployment_status(release.stable_deployment)
    except DeploymentMissing:
        return 0
    return 0 if status.state in (DeploymentState.FAILING, *GONE) else status.ready


def warm_deployments() -> Mapping[str, DeploymentNote]:
    """Tell the fleet's pages which deployments have no traffic, until when, and for which release."""
    rows = Release.objects.filter(bake_until__isnull=False, state=ReleaseState.PROMOTED)
    found = rows.values_list("stable_deployment", "pk", "bake_until")
    return {
        name: DeploymentNote(
            _("Kept warm for a rollback of release #%(release)s") % {"release": pk}, until, f"/releases/{pk}/"
        )
        for name, pk, until in found
    }


def start_seconds(
    service_id: int, version_id: int | None, *, trait: str = "starts_candidate"
) -> float | None:
    """Seconds of the last start of the version on the service, in steps of the kinds that have the trait of
    `StepSpec`; None: not known."""
    steps = ReleaseStep.objects.filter(
        release__service=service_id,
        release__version=version_id,
        state=StepState.DONE,
        kind__in=kinds_with(trait),
    ).exclude(release__plan_name=WARM_ROLLBACK)
    latest = steps.filter(kind__in=kinds_with("starts_workers")).order_by("-release").values("release")[:1]
    took = [
        (ended - began).total_seconds()
        for began, ended in steps.filter(release__in=latest).values_list("started_at", "ended_at")
        if began and ended
    ]
    return sum(took) if took else None
