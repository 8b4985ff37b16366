"""The two sides of a service side by side: the same figures, from rows at first and live from then on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusters import selectors as fleet
from clusters.errors import DeploymentMissing
from clusters.selectors import DeploymentStatus
from releases.models import Release, Service
from releases.sampling import Look
from releases.traffic import NOTHING, SideTraffic

STABLE, CANDIDATE = "stable", "candidate"
NOTE = "Rates of the last 10 s; shares, errors and latencies of the last 60 s."


@dataclass(frozen=True, slots=True)
class Lane:
    side: str
    version: Any
    """The `models_registry.models.Version` that answers there; None: nothing does."""
    deployment: str
    percent: int
    """Of the traffic, as wished."""
    status: DeploymentStatus | None
    """Its workers; None while there is no deployment."""
    traffic: SideTraffic

    @property
    def workers(self) -> str:
        return f"{self.status.ready} of {self.status.wanted}" if self.status else "none"


def lanes_of(service: Service, release: Release | None, looks: Sequence[Look] = ()) -> list[Lane]:
    """Stable first. A first release has no stable side, a service without release no candidate."""
    percent = release.candidate_percent if release else 0
    stable = release.stable_deployment if release else service.stable_deployment
    seen = looks[-1].sides if looks else {}
    lanes = []
    if stable:
        version = release.from_version if release else service.stable_version
        lanes.append(_lane(STABLE, version, stable, 100 - percent, seen))
    if release:
        share = percent if stable else 100
        lanes.append(_lane(CANDIDATE, release.version, release.candidate_deployment, share, seen))
    return lanes


def _lane(side: str, version: Any, deployment: str, percent: int, seen: Mapping[str, SideTraffic]) -> Lane:
    return Lane(side, version, deployment, percent, status_of(deployment), seen.get(deployment, NOTHING))


def status_of(deployment: str) -> DeploymentStatus | None:
    try:
        return fleet.deployment_status(deployment)
    except DeploymentMissing:
        return None


def traffic_values(look: Look, deployments: Mapping[str, str]) -> dict[str, Any]:
    """What the live topics show of the traffic. `deployments`: which one stands on which side."""
    values: dict[str, Any] = {
        "traffic": "problem" if look.problem else "live",
        "traffic.problem": look.problem,
    }
    for side, deployment in deployments.items():
        traffic = look.sides.get(deployment, NOTHING)
        values |= {
            f"{side}.rate": _rounded(traffic.rate, 2),
            f"{side}.share": None if traffic.share is None else round(100 * traffic.share, 1),
            f"{side}.errors": _rounded(traffic.error_share, 5),
            f"{side}.p50": _rounded(traffic.p50, 4),
            f"{side}.p95": _rounded(traffic.p95, 4),
            f"{side}.first_byte": _rounded(traffic.first_byte_p95, 4),
            f"{side}.in_flight": traffic.in_flight,
        }
    return values


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
