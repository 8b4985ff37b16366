"""What a release tells the gateway."""

from typing import cast

from common.fence import Fence
from common.reconcile import LeaseLost, Operation
from gateway.errors import StaleRouteFence
from gateway.models import answers_key, opened_key
from gateway.routes import (
    Cohort,
    ReleaseHeader,
    RouteSpec,
    RouteTarget,
)
from gateway.services import routes
from releases.models import Release
from releases.reconcilers.base import ACTOR
from releases.reconcilers.cohort import cohort_of
from serving.protocol import ENGINES_WITH_ROUTES


def split_traffic(release: Release, operation: Operation, *, candidate_percent: int) -> None:
    """Stable stays, and the candidate gets its share; what forces the canary reaches it at any share, and so
    does the cohort that the plan has named by now."""
    routes.sync_workers(release.candidate_deployment)
    candidate = RouteTarget(release.candidate_deployment, str(release.version))
    terms = cohort_of(release)
    _set(
        release,
        operation,
        _stable(release),
        candidate=candidate,
        candidate_percent=candidate_percent,
        cohort=Cohort(terms.header, terms.cookie, terms.value, terms.percent or 0) if terms else None,
    )


def mirror_traffic(
    release: Release, operation: Operation, *, percent: int, keeps_answers: bool = False
) -> None:
    """Every request to stable, and of this share a copy to the candidate; workers may keep the answers."""
    routes.sync_workers(release.candidate_deployment)
    candidate = RouteTarget(release.candidate_deployment, str(release.version))
    _set(
        release,
        operation,
        _stable(release),
        candidate=candidate,
        mirror_percent=percent,
        keeps_answers=keeps_answers,
    )


def return_traffic(release: Release, operation: Operation) -> None:
    """Every request to stable, the forced ones too."""
    _set(release, operation, _stable(release))


def make_stable(release: Release, operation: Operation) -> None:
    """Every request to what was the candidate."""
    routes.sync_workers(release.candidate_deployment)
    _set(release, operation, RouteTarget(release.candidate_deployment, str(release.version)))


def _stable(release: Release) -> RouteTarget:
    return RouteTarget(release.stable_deployment, str(release.from_version))


def _set(
    release: Release,
    operation: Operation,
    stable: RouteTarget,
    *,
    candidate: RouteTarget | None = None,
    candidate_percent: int = 0,
    mirror_percent: int = 0,
    keeps_answers: bool = False,
    cohort: Cohort | None = None,
) -> None:
    """Raises LeaseLost when a later turn of this release, or a later release, was there first."""
    spec = RouteSpec(
        name=release.service.name,
        stable=stable,
        candidate=candidate,
        candidate_percent=candidate_percent,
        release_header=cast("ReleaseHeader", release.service.release_header),
        release_key=opened_key(release.service.sealed_release_key),
        mirror_percent=mirror_percent,
        answers_key=answers_key(release.service.name, release.candidate_deployment) if keeps_answers else "",
        cohort=cohort,
        all_paths=release.service.engine in ENGINES_WITH_ROUTES,
    )
    try:
        routes.set_route(
            spec,
            cluster=release.service.cluster,
            fence=Fence(holder=release.pk, turn=operation.fence),
            actor=ACTOR,
            reason=f"Release {release.pk}.",  # untranslated
        )
    except StaleRouteFence as late:
        raise LeaseLost(str(late)) from None
