"""What the live topics show of a release or a service, by flat path: as its page did when it was opened."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from common.pages import formats
from common.sentences import in_each_language
from releases.judge.verdict import JudgeVerdict
from releases.models import Release, Service
from releases.pages.analysis import forecast_of, live_key, state_of
from releases.pages.lanes import CANDIDATE, STABLE, traffic_values
from releases.sampling import TrafficSample
from releases.selectors import releases as release_selectors
from releases.selectors.releases import decision_of, verdict_of


def sides_of(service: Service, release: Release | None) -> dict[str, str]:
    """Return the deployment of each side."""
    stable = release.stable_deployment if release else service.stable_deployment
    sides = {STABLE: stable} if stable else {}
    if release:
        sides[CANDIDATE] = release.candidate_deployment
    return sides


def release_values(release: Release, look: TrafficSample | None) -> dict[str, Any]:
    """`look` is None for a release that has ended: its figures do not move any more."""
    values = {**weight_values(release), **judge_values(release, verdict_of(release))}
    if look is not None:
        values |= {"now": round(look.at, 1), **traffic_values(look, sides_of(release.service, release))}
    return values


def service_values(service: Service, release: Release | None, look: TrafficSample) -> dict[str, Any]:
    values = {"now": round(look.at, 1), **traffic_values(look, sides_of(service, release))}
    return values | weight_values(release) if release else values


def weight_values(release: Release) -> dict[str, Any]:
    weights = release_selectors.weights(release)
    return {
        "weights.stable": weights["observed"]["stable"],
        "weights.candidate": weights["observed"]["candidate"],
        **in_each_language("weights.basis", lambda: split_basis(weights)),
    }


def split_basis(weights: Mapping[str, Any]) -> str:
    """Say what the observed share rests on, and the interval that sampling allows."""
    interval = weights["interval_percent"]
    if weights["observed"]["candidate"] is None or interval is None:
        return _("not measured in this step yet")
    low, high = interval
    return _("%(requests)s requests; expected %(low)s–%(high)s%% (sampling interval)") % {
        "requests": formats.count(weights["requests"]),
        "low": f"{low:.1f}",
        "high": f"{high:.1f}",
    }


def judge_values(release: Release, verdict: JudgeVerdict | None) -> dict[str, Any]:
    values: dict[str, Any] = {"judge.decision": decision_of(release, verdict)}
    if verdict is None:
        return values
    values |= {
        **in_each_language("judge.reason", lambda: verdict.reason),
        "judge.more": verdict.requests_to_certify,
        "judge.seconds": verdict.seconds_to_certify,
        "judge.forecast": forecast_of(verdict),
    }
    for progress in verdict.indicators:
        path = f"judge.{live_key(progress.name)}"
        values |= {
            f"{path}.for": round(progress.accept_progress, 4),
            f"{path}.against": round(progress.reject_progress, 4),
            f"{path}.candidate.share": round(progress.candidate.share, 5),
            f"{path}.stable.share": round(progress.stable.share, 5),
            f"{path}.state": state_of(progress, verdict),
            f"{path}.candidate.bad": progress.candidate.bad,
            f"{path}.candidate.requests": progress.candidate.requests,
            f"{path}.stable.bad": progress.stable.bad,
            f"{path}.stable.requests": progress.stable.requests,
        }
    return values
