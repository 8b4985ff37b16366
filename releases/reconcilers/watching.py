"""Judging goes on for as long as the candidate may get traffic: what is seen, and what follows from it."""

import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext_lazy as _

from clusters import selectors as fleet
from clusters.errors import DeploymentMissing
from clusters.states import DeploymentState
from common.reconcile import EPOCH, Operation, StepOutcome, wait
from gateway import selectors as gateway
from gateway.errors import GatewayError
from gateway.traffic import TargetCounts
from gateway.worker_figures import WorkerFigures
from releases.judge.counts import increments_between
from releases.judge.curve import curve_point
from releases.judge.evidence import EvidenceIncrement, JudgeEvidence
from releases.judge.rules import JudgeRules
from releases.judge.threshold import Threshold
from releases.judge.verdict import JudgeDecision, JudgeVerdict, verdict
from releases.judge.worker_counts import latency_thresholds, sides_between, worker_tallies
from releases.messages import MessageTemplate, ReleaseMessage, text
from releases.models import EvidencePoint, Release
from releases.reconcilers.base import ACTOR, SPLIT, Executor, Spec, began_at
from releases.reconcilers.clock import (
    LONGEST_STALL,
    LONGEST_STRETCH,
    STALLED,
    UNCOUNTED,
    StepClock,
    unready,
)
from releases.reconcilers.cohort import cohort_fault, cohort_of, seen_of_cohort
from releases.reconcilers.counted import StoredCounts, packed, unpacked
from releases.reconcilers.disturbed import blame
from releases.reconcilers.pace import pace
from releases.selectors.plans import plan_of
from releases.selectors.releases import is_always_saturated, slow_threshold
from releases.service_indicators import IndicatorReadings, mark_judged, queried_after, read_indicators
from releases.services.threshold import keep_threshold

logger = logging.getLogger(__name__)

ASK_THRESHOLD_EVERY = 3
"""Looks."""
POINTS = 300
"""About how many points of the judge's curve one stretch of time keeps, however long it lasts."""

FAILED = MessageTemplate("candidate.failed", _("The candidate's workers failed: %(fault)s."), fault=text)


@dataclass(frozen=True, slots=True)
class TrafficObservation:
    """Observation of a release that has traffic."""

    at: datetime
    counts: Mapping[str, TargetCounts] | None
    """None: the gateway did not answer, or knows no route yet."""
    candidate: str
    why: str
    """What keeps the candidate's workers from being ready; empty when they are."""
    unready: ReleaseMessage
    """Why what either version answers shows nothing of it now; empty: both have ready workers."""
    uncounted: str
    """Why there are no counts; empty when there are."""
    threshold: Threshold | None = None
    """From when on answers are slow; looked for only while the release has none."""
    asked_threshold: bool = False
    figures: Mapping[str, WorkerFigures] | None = None
    """What the workers of both sides have counted; None: the plan judges by nothing of it, or they do not
    answer."""
    indicators: IndicatorReadings = field(default_factory=IndicatorReadings)
    is_always_saturated: bool = False
    """No threshold can be learnt, because stable had no free slot whenever it answered."""


@dataclass(frozen=True, slots=True)
class EvidenceUpdate:
    """The evidence after a look, ready to be saved with whatever the step decides."""

    evidence: JudgeEvidence
    verdict: JudgeVerdict
    save: Mapping[str, Any]
    write: Callable[[], None]
    fault: ReleaseMessage
    """What a cohort of clients met that ends the release; empty: nothing."""
    clock: StepClock


def look(release: Release, at: datetime, *, is_fresh: bool = False) -> TrafficObservation:
    """`is_fresh`: what is counted at this moment; otherwise half a second ago at most, which costs far less
    when many releases look."""
    pace.note(release.pk)
    uncounted = ""
    try:
        if is_fresh:
            counts = gateway.counts(gateway.route(release.service.name))
        else:
            counts = gateway.counts_lately(
                release.service.cluster_id, release.service.name, taken_after=_last_look(release)
            )
    except GatewayError as error:
        counts, uncounted = None, str(error)
    threshold, is_saturated = None, False
    asks = counts is not None and release.stable_deployment in counts and _needs_threshold(release, at)
    if counts is not None and asks:
        of_stable = counts[release.stable_deployment]
        threshold = slow_threshold(release, at=at, counts=of_stable)
        is_saturated = threshold is None and is_always_saturated(release, at=at, counts=of_stable)
    names = (release.candidate_deployment, release.stable_deployment)
    found = fleet.readiness(name for name in names if name)
    if (candidate := found.get(release.candidate_deployment)) is None:
        raise DeploymentMissing(_("There is no deployment %(name)s.") % {"name": names[0]})
    sides = {"candidate": candidate}
    if stable := found.get(release.stable_deployment):
        sides["stable"] = stable
    indicators = read_indicators(release, plan_of(release).judge, at)
    return TrafficObservation(
        at,
        counts,
        candidate.state,
        candidate.reason,
        unready(sides, at),
        uncounted,
        threshold,
        asks,
        _figures_of(release, indicators) if counts is not None else None,
        indicators,
        is_saturated,
    )


def _figures_of(release: Release, indicators: IndicatorReadings) -> Mapping[str, WorkerFigures] | None:
    rules = plan_of(release).judge
    if len(rules.indicators) == len(indicators.names) and not rules.latencies:
        return None
    try:
        return gateway.worker_figures(release.service.name)
    except GatewayError as error:
        logger.info("Workers of %s tell no indicators: %s", release.service.name, error)
        return None


def _last_look(release: Release) -> datetime:
    """Nothing older may be compared with what that look has seen, nor with the weight of this step."""
    at = datetime.fromisoformat(release.baseline["at"]) if "at" in release.baseline else EPOCH
    return max(at, began_at(release) or EPOCH)


def _needs_threshold(release: Release, at: datetime) -> bool:
    if not release.stable_deployment or release.evidence.get("slow_threshold_ms") is not None:
        return False
    # Without traffic there is none for long, and to look for it costs more than the look itself.
    asked_at = release.baseline.get("threshold_asked_at")
    return asked_at is None or at - datetime.fromisoformat(asked_at) >= ASK_THRESHOLD_EVERY * pace.wait()


def judged(
    release: Release, sight: TrafficObservation, rules: JudgeRules, *, is_paused: bool = False
) -> EvidenceUpdate:
    """The evidence with what has happened since the last look, and the verdict on it."""
    evidence = JudgeEvidence.from_dict(release.evidence) if release.evidence else JudgeEvidence.start(rules)
    baseline = dict(release.baseline)
    before = unpacked(baseline["counts"]) if "counts" in baseline else None
    learnt: Threshold | None = None
    increment: EvidenceIncrement | None = None
    if sight.counts is not None:
        stable, candidate = release.stable_deployment, release.candidate_deployment
        if before and candidate in before:
            increment = _increment(release, before, sight.counts, sight, rules, evidence)
            evidence = evidence.after(increment, rules)
        if evidence.slow_threshold_ms is None and sight.threshold is not None:
            # From what stable has answered up to now; only later answers are judged by it.
            evidence = evidence.with_slow_threshold(sight.threshold.milliseconds)
            baseline["threshold"] = sight.threshold.to_dict()
            learnt = sight.threshold if sight.threshold.is_news else None
        if sight.asked_threshold:
            baseline["threshold_asked_at"] = sight.at.isoformat()
            baseline["is_always_saturated"] = sight.is_always_saturated
        sides = {name: one for name, one in sight.counts.items() if name in (stable, candidate)}
        baseline["counts"] = packed(sides, slow_threshold_ms=evidence.slow_threshold_ms)
        if sight.figures is not None and stable in sight.figures:
            # As with the threshold of slow: only later answers are judged by it.
            thresholds = latency_thresholds(evidence.latency_thresholds_ms, sight.figures[stable], rules)
            evidence = replace(evidence, latency_thresholds_ms=thresholds)
        baseline["workers"] = _worker_tallies(release, sight, rules, evidence)
        baseline["at"] = sight.at.isoformat()
        if cohort_of(release) is not None:
            baseline["cohort"] = seen_of_cohort(release, sight.counts, baseline.get("cohort", {}))
    of_service, kept = queried_after(release, sight.indicators, sight.at)
    baseline |= kept
    for name, counted in (*of_service.items(), *((one.name, one.sides) for one in sight.indicators.pushed)):
        evidence = evidence.after_stretch(name, counted, rules)
    clock = StepClock.of(release)
    clock = replace(clock, is_steady=False) if is_paused else _clock_after(clock, increment, sight, baseline)
    baseline["clock"] = clock.to_dict()
    verdict_now = verdict(evidence, rules)
    # The look that decides is always drawn: a curve must be seen to reach its limit.
    decides = verdict_now.decision is JudgeDecision.ROLL_BACK
    keeps_point = decides or _is_time_for_a_point(baseline, sight.at)
    if keeps_point:
        baseline["point_at"] = sight.at.isoformat()
        baseline.setdefault("first_point_at", sight.at.isoformat())

    def write() -> None:
        if learnt is not None:
            keep_threshold(release, learnt)
        mark_judged(release, sight.indicators)
        if keeps_point:
            drawn = curve_point(evidence, rules, at=sight.at.timestamp())
            EvidencePoint.objects.create(release=release, at=sight.at, curve=drawn.to_dict())

    return EvidenceUpdate(
        evidence,
        verdict_now,
        {"evidence": evidence.to_dict(), "baseline": baseline},
        write,
        cohort_fault(release, baseline.get("cohort", {})),
        clock,
    )


def _increment(
    release: Release,
    before: Mapping[str, StoredCounts],
    after: Mapping[str, TargetCounts],
    sight: TrafficObservation,
    rules: JudgeRules,
    evidence: JudgeEvidence,
) -> EvidenceIncrement:
    """Return what was counted since the last look. `before`, `after`: the counts of the gateway."""
    baseline = release.baseline
    stable, candidate = release.stable_deployment, release.candidate_deployment
    seconds = (sight.at - datetime.fromisoformat(baseline["at"])).total_seconds()
    increment = increments_between(
        before,
        after,
        stable=stable,
        candidate=candidate,
        seconds=max(seconds, 0.0),
        slow_threshold_ms=evidence.slow_threshold_ms,
    )
    if increment.interrupted:
        return increment
    counted = _worker_tallies(release, sight, rules, evidence)
    of_workers = sides_between(baseline.get("workers", {}), counted, candidate=candidate, stable=stable)
    ours = {name: one for name, one in of_workers.items() if name not in sight.indicators.names}
    return replace(increment, indicators={**increment.indicators, **ours})


def _worker_tallies(
    release: Release, sight: TrafficObservation, rules: JudgeRules, evidence: JudgeEvidence
) -> dict[str, Any]:
    """Return the workers' tallies by deployment."""
    return {
        name: worker_tallies(counts, rules, evidence.latency_thresholds_ms)
        for name, counts in (sight.figures or {}).items()
        if name in (release.stable_deployment, release.candidate_deployment)
    }


def _clock_after(
    clock: StepClock,
    increment: EvidenceIncrement | None,
    sight: TrafficObservation,
    baseline: Mapping[str, Any],
) -> StepClock:
    stall = sight.unready
    # Between two scrapes of a Prometheus there is nothing new to read.
    counted_at = datetime.fromisoformat(baseline["at"]) if "at" in baseline else EPOCH
    if not stall and increment is None and sight.at - counted_at > LONGEST_STRETCH:
        stall = UNCOUNTED(why=sight.uncounted)
    return clock.after(increment, stall=stall, at=sight.at)


def _is_time_for_a_point(baseline: Mapping[str, Any], at: datetime) -> bool:
    if "point_at" not in baseline:
        return True
    since_last = at - datetime.fromisoformat(baseline["point_at"])
    since_first = at - datetime.fromisoformat(baseline["first_point_at"])
    return since_last >= max(timedelta(seconds=1), since_first / POINTS)


def candidate_fault(sight: TrafficObservation) -> ReleaseMessage:
    """Why the candidate cannot go on, whatever the judge says; empty: it can."""
    if sight.candidate in (DeploymentState.FAILING, DeploymentState.REMOVED):
        return FAILED(fault=sight.why or sight.candidate)
    return ReleaseMessage()


class WatchedExecutor(Executor[Spec]):
    """A step during which the candidate may get traffic: a look judges before the step goes its own way."""

    heeds_judge: bool = True
    tells_progress = False
    """Its figures change with every look; whoever watches a release reads them once a second anyway."""

    def lane(self, row: Release) -> str:
        """Prometheus queries of indicators wait for a system that is not ours."""
        return row.service.cluster.own_lane if plan_of(row).judge.indicators else ""

    def observe(self, row: Release, operation: Operation) -> TrafficObservation:
        return look(row, operation.at)

    def needs_clock(self, row: Release) -> bool:
        """Whether it stays while its clock stands."""
        return True

    def on_stall(self) -> tuple[timedelta, str]:
        """Return how long its clock may stand in one piece, and what follows: `pause` or `roll_back`."""
        return LONGEST_STALL, "pause"

    def settle(self, row: Release, seen: TrafficObservation, now: datetime) -> StepOutcome:
        if not row.stable_deployment:
            # A service's first version has nothing to be compared with.
            return self.decide(row, seen, None, now)
        view = judged(row, seen, plan_of(row).judge)
        fault = candidate_fault(seen) or view.fault
        if fault:
            return _with(view, blame(row, fault, now))
        if self.heeds_judge and view.verdict.decision is JudgeDecision.ROLL_BACK:
            return _with(view, blame(row, view.verdict.message, now))
        if self.needs_clock(row) and view.clock.reason is not None:
            return _with(view, self.stall(row, view, now))
        return _with(view, self.decide(row, seen, view, now))

    def stall(
        self, row: Release, view: EvidenceUpdate, now: datetime, *, progress: Mapping[str, Any] | None = None
    ) -> StepOutcome:
        """Stay while the clock stands. Without `progress` the split is measured anew afterwards."""
        lasts = view.clock.stalled_for(now)
        longest, then = self.on_stall()
        if lasts < longest:
            if progress is None:
                progress = {key: value for key, value in row.progress.items() if key not in SPLIT}
            return self.look_again(row, progress=progress, save=view.save)
        why = STALLED(minutes=round(lasts.total_seconds() / 60), why=view.clock.why)
        if then == "roll_back":
            return blame(row, why, now)
        # A person who resumes it gives it as long again.
        clock = replace(view.clock, stalled_since="", reason=None)
        baseline = {**view.save["baseline"], "clock": clock.to_dict(), "pause_reason": why.document}
        save = {"baseline": baseline, "paused_at": now, "paused_by": ACTOR.name}
        return wait(timedelta(0), save=save)

    @abstractmethod
    def decide(
        self, row: Release, seen: TrafficObservation, view: EvidenceUpdate | None, now: datetime
    ) -> StepOutcome:
        """Decide what follows, given that nothing speaks against the candidate."""


def _with(view: EvidenceUpdate, outcome: StepOutcome) -> StepOutcome:
    """The step's outcome, the evidence saved with it."""

    def write() -> None:
        view.write()
        if outcome.write:
            outcome.write()

    return replace(outcome, save={**view.save, **outcome.save}, write=write)
