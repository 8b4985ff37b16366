"""The split between stable and candidate as requests really took it, beside what chance allows."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.utils.translation import gettext_lazy as _

from releases.messages import MessageTemplate, ReleaseMessage, nested, number
from releases.models import Release
from releases.reconcilers.watching import TrafficObservation
from releases.split import interval_percent

SPLIT_MAY_LAG = timedelta(seconds=60)
"""How long the observed split may lie outside what chance allows before it is a fault."""

SPLIT = MessageTemplate(
    "split.measured",
    _(
        "%(percent)s %% of %(requests)s requests went to the candidate (%(low)s to %(high)s %% is what "
        "chance allows)."
    ),
    percent=number,
    requests=str,
    low=number,
    high=number,
)
NO_REQUESTS = MessageTemplate("split.no_requests", _("No requests came, so the split could not be measured."))
NOT_SPLIT = MessageTemplate(
    "split.wrong",
    _("The gateway does not split as told (%(percent)s %%): %(why)s"),
    percent=number,
    why=nested,
)


def measured(release: Release, seen: TrafficObservation) -> dict[str, Any]:
    """The split since this step began, beside the interval that chance allows (99.9 %)."""
    if seen.counts is None or not release.stable_deployment:
        return dict(release.progress)
    candidate = seen.counts.get(release.candidate_deployment)
    stable = seen.counts.get(release.stable_deployment)
    if candidate is None or stable is None:
        return dict(release.progress)
    start = release.progress.get("start")
    if start is None or start["epochs"] != [candidate.epoch, stable.epoch]:
        start = {"epochs": [candidate.epoch, stable.epoch], "counts": [candidate.routed, stable.routed]}
        return {"start": start, "wished_percent": release.candidate_percent}
    ours, theirs = candidate.routed - start["counts"][0], stable.routed - start["counts"][1]
    total = ours + theirs
    if total <= 0:
        return {"start": start, "wished_percent": release.candidate_percent, "requests": 0}
    low, high = interval_percent(total, release.candidate_percent)
    observed = 100 * ours / total
    return {
        "start": start,
        "wished_percent": release.candidate_percent,
        "requests": total,
        "observed_percent": round(observed, 2),
        "interval_percent": [round(low, 2), round(high, 2)],
        "within": low <= observed <= high,
    }


def split_note(progress: Mapping[str, Any]) -> ReleaseMessage:
    requests = progress.get("requests")
    if not requests:
        return NO_REQUESTS()
    low, high = progress["interval_percent"]
    return SPLIT(percent=progress["observed_percent"], requests=requests, low=low, high=high)


def split_fault(progress: Mapping[str, Any]) -> ReleaseMessage:
    return NOT_SPLIT(percent=progress["wished_percent"], why=split_note(progress))
