"""Giving the candidate its share, holding it there, and asking the judge."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from common.reconcile import Effect, Operation, Outcome
from releases import plans, stored
from releases.judge import Decision
from releases.models import Release
from releases.reconcilers.base import SOON, halt
from releases.reconcilers.routing import split_traffic
from releases.reconcilers.watching import Judged, Sight, WatchedStep, look
from releases.split import interval_percent

SPLIT_MAY_LAG = timedelta(seconds=60)
"""How long the observed split may lie outside what chance allows before it is a fault."""


class SetWeight(WatchedStep[plans.Weight]):
    name = "weight"
    effect = Effect.ABSOLUTE

    def intent(self, row: Release) -> Mapping[str, Any]:
        return {"route": row.service.name, "candidate_percent": self.spec.percent}

    def act(self, row: Release, operation: Operation) -> None:
        # Read just before the change, so that no stretch that is judged spans two weights.
        self._before = look(row, operation.at, is_fresh=True)
        split_traffic(row, operation, candidate_percent=self.spec.percent)

    def observe(self, row: Release, operation: Operation) -> Sight:
        return self._before

    def decide(self, row: Release, seen: Sight, view: Judged | None, now: datetime) -> Outcome:
        save = {"candidate_percent": self.spec.percent}
        note = f"The gateway sends {self.spec.percent} % to {row.version}."
        return self.go_on(row, note=note, save=save, keeps_split=False)


class Hold(WatchedStep[plans.Hold]):
    """Stay for a while and measure what was really routed."""

    name = "hold"

    def decide(self, row: Release, seen: Sight, view: Judged | None, now: datetime) -> Outcome:
        progress = measured(row, seen)
        over = self.elapsed(row, now) - timedelta(seconds=self.spec.seconds)
        if over < timedelta(0):
            return self.look_again(row, progress=progress, after=min(SOON, -over))
        if not progress.get("within", True):
            if over < SPLIT_MAY_LAG:
                return self.look_again(row, progress=progress)
            return halt(row, split_fault(progress))
        return self.go_on(row, note=split_note(progress), detail=progress)


class Judge(WatchedStep[plans.Judge]):
    """Ask for evidence in the candidate's favour; without enough of it, do as the plan says."""

    name = "judge"

    def decide(self, row: Release, seen: Sight, view: Judged | None, now: datetime) -> Outcome:
        if view is None:
            return self.go_on(row, note="Nothing to compare with: this is the service's first version.")
        # The split goes on being measured: people watch it here too.
        progress = {**measured(row, seen), "verdict": view.verdict.to_dict()}
        if view.verdict.decision is Decision.PROMOTE:
            return self.go_on(row, note=view.verdict.reason, detail=progress)
        waited = self.elapsed(row, now)
        if waited < timedelta(seconds=self.spec.at_most_seconds):
            return self.look_again(row, progress=progress)
        match self.spec.on_insufficient:
            case "roll_back":
                seconds = f"{waited.total_seconds():.0f}"
                reason = stored.TOO_LITTLE % {"seconds": seconds, "why": view.verdict.reason}
                return halt(row, reason, save={"progress": progress})
            case "wait":
                return self.look_again(row, progress=progress)
            case _:
                # The approval that follows, or the plan's word, decides; the page shows what is known.
                return self.go_on(row, note=view.verdict.reason, detail=progress)


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
