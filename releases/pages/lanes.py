"""The two sides of a service side by side: the same figures, from rows at first and live from then on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from clusters import selectors as fleet
from clusters.errors import DeploymentMissing
from clusters.selectors import DeploymentStatus
from common.sentences import in_each_language
from releases.models import Release, Service
from releases.sampling import TrafficSample
from releases.selectors import releases as release_selectors
from releases.traffic import NOTHING, SideTraffic

STABLE, CANDIDATE = "stable", "candidate"


@dataclass(frozen=True, slots=True)
class Lane:
    side: str
    version: Any
    """The `models_registry.models.Version` that answers there; None: nothing does."""
    deployment: str
    percent: int
    """Of the traffic, as wished."""
    observed_percent: float | None
    """As measured in the present step of the release."""
    status: DeploymentStatus | None
    """Its workers; None while there is no deployment."""
    traffic: SideTraffic

    @property
    def workers(self) -> str:
        if self.status is None:
            return _("none")
        return _("%(ready)s of %(wanted)s") % {"ready": self.status.ready, "wanted": self.status.wanted}


def lanes_of(service: Service, release: Release | None, looks: Sequence[TrafficSample] = ()) -> list[Lane]:
    """Stable first. A first release has no stable side, a service without release no candidate."""
    percent = release.candidate_percent if release else 0
    stable = release.stable_deployment if release else service.stable_deployment
    seen = looks[-1].sides if looks else {}
    weights = release_selectors.weights(release)["observed"]
    lanes = []
    if stable:
        version = release.from_version if release else service.stable_version
        lanes.append(_lane(STABLE, version, stable, 100 - percent, weights, seen))
    if release:
        share = percent if stable else 100
        deployment = release.candidate_deployment
        lanes.append(_lane(CANDIDATE, release.version, deployment, share, weights, seen))
    return lanes


def _lane(
    side: str,
    version: Any,
    deployment: str,
    percent: int,
    observed: Mapping[str, float | None],
    seen: Mapping[str, SideTraffic],
) -> Lane:
    traffic = seen.get(deployment, NOTHING)
    return Lane(side, version, deployment, percent, observed[side], status_of(deployment), traffic)


def status_of(deployment: str) -> DeploymentStatus | None:
    try:
        return fleet.deployment_status(deployment)
    except DeploymentMissing:
        return None


def told_by(look: TrafficSample) -> str:
    """Who has read the figures, and when."""
    return _("Read on the host %(host)s, %(age)s s ago.") % {
        "host": look.told_by,
        "age": f"{look.age_seconds:.0f}",
    }


def traffic_values(look: TrafficSample, deployments: Mapping[str, str]) -> dict[str, Any]:
    """Return what the live topics show of the traffic. `deployments`: which one stands on which side."""
    values: dict[str, Any] = {
        "traffic": "problem" if look.problem else "told" if look.told_by else "live",
        "traffic.problem": look.problem,
    }
    if look.told_by:
        values |= in_each_language("traffic.told", lambda: told_by(look))
    for side, deployment in deployments.items():
        traffic = look.sides.get(deployment, NOTHING)
        values |= {
            f"{side}.rate": _rounded(traffic.rate, 2),
            f"{side}.errors": _rounded(traffic.error_share, 5),
            f"{side}.p50": _rounded(traffic.p50, 4),
            f"{side}.p95": _rounded(traffic.p95, 4),
            f"{side}.first_byte": _rounded(traffic.first_byte_p95, 4),
            f"{side}.in_flight": traffic.in_flight,
        }
    return values


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
