"""How services are at the moment: rows, heartbeats and the gateway's counts, read for all of them at once."""

import time
from collections.abc import Iterator, Mapping, Sequence

from clusters import selectors as fleet
from clusters.fleet import DeploymentSnapshot
from clusters.states import Alert, DeploymentState, WorkerState
from gateway import selectors as gateway
from releases.condition import (
    LEAST_REQUESTS,
    ServiceCondition,
    ServiceObservation,
    StableWorkers,
    condition_of,
)
from releases.models import Release, Service
from releases.sampling import sampler

FRESH_SECONDS = 15.0
ASKED_SERVICES = 25
"""The gateway's present counts cost some milliseconds each; of more services those of the last minute do."""


def conditions(services: Sequence[Service], moving: Mapping[int, Release]) -> dict[int, ServiceCondition]:
    """Return conditions by service id: four queries, one of Redis. `moving`: releases by service id."""
    deployments = fleet.deployments_now(_stable_of(one, moving.get(one.pk)) for one in services)
    names = [one.name for one in services]
    answered = gateway.errors_lately(
        [name for name in names if _watched(name) is None],
        least_requests=LEAST_REQUESTS,
        ask=len(names) <= ASKED_SERVICES,
    )
    problems = gateway.route_problems(names)
    return {
        one.pk: condition_of(
            _observed(
                one,
                moving.get(one.pk),
                deployments,
                _watched(one.name) or answered.get(one.name, (0, 0)),
                problems.get(one.name, ""),
            )
        )
        for one in services
    }


def _stable_of(service: Service, release: Release | None) -> str:
    return release.stable_deployment if release else service.stable_deployment


def _observed(
    service: Service,
    release: Release | None,
    deployments: Mapping[str, DeploymentSnapshot],
    answered: tuple[int, int],
    problem: str,
) -> ServiceObservation:
    deployment = deployments.get(_stable_of(service, release))
    return ServiceObservation(
        has_stable=service.stable_version_id is not None,
        is_releasing=release is not None,
        workers=_workers(deployment) if deployment else None,
        requests=answered[0],
        errors=answered[1],
        gateway_problem=problem,
        desired_percent=release.candidate_percent if release else 0,
        observed_percent=_off_by_more_than_chance(release) if release else None,
    )


def _workers(deployment: DeploymentSnapshot) -> StableWorkers:
    return StableWorkers(
        wanted=deployment.row.replicas,
        ready=deployment.load.ready,
        lost=deployment.load.lost,
        stuck=deployment.load.stuck,
        saturated=deployment.load.saturated,
        waiting=sum(worker.queue_depth for worker in deployment.workers),
        reason=next(_reasons(deployment), ""),
    )


def _reasons(deployment: DeploymentSnapshot) -> Iterator[str]:
    """Yield why workers are lost or not ready."""
    failing = deployment.row.reason if deployment.row.state == DeploymentState.FAILING else ""
    yield from filter(None, [failing])
    for one in deployment.workers:
        if one.reason and (one.alert == Alert.LOST or one.state != WorkerState.READY):
            yield f"{one.row.name}: {one.reason}"


def _watched(service: str) -> tuple[int, int] | None:
    """Requests and errors of the last minute, where a page in this process watches the service."""
    looks = sampler.seen(service)
    if not looks or looks[-1].problem or time.time() - looks[-1].at > FRESH_SECONDS:
        return None
    sides = looks[-1].sides.values()
    return (
        sum(side.requests for side in sides),
        sum(round(side.requests * (side.error_share or 0)) for side in sides),
    )


def _off_by_more_than_chance(release: Release) -> float | None:
    """The candidate's observed share, if chance does not explain how far it is from the desired one."""
    progress = release.progress
    interval, observed = progress.get("interval_percent"), progress.get("observed_percent")
    if progress.get("wished_percent") != release.candidate_percent or interval is None or observed is None:
        return None
    low, high = interval
    return None if low <= observed <= high else float(observed)
