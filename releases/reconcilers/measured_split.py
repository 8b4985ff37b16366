"""The split between stable and candidate as requests really took it, beside what chance allows."""

from collections.abc import Mapping
from typing import Any

from releases import stored
from releases.models import Release
from releases.reconcilers.watching import Sight
from releases.split import interval_percent


def measured(release: Release, seen: Sight) -> dict[str, Any]:
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


def split_note(progress: Mapping[str, Any]) -> str:
    if not progress.get("requests"):
        return stored.NO_REQUESTS
    low, high = progress["interval_percent"]
    return stored.SPLIT % {
        "percent": f"{progress['observed_percent']:g}",
        "requests": progress["requests"],
        "low": f"{low:g}",
        "high": f"{high:g}",
    }


def split_fault(progress: Mapping[str, Any]) -> str:
    return stored.NOT_SPLIT % {"percent": progress["wished_percent"], "why": split_note(progress)}
