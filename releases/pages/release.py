"""A release's page. Every section is read when the template asks for it, so a part costs only itself."""

from collections.abc import Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any

from django.utils import timezone

from accounts.models import User
from clusters import selectors as fleet
from clusters.models import Deployment
from common.actor import Actor
from common.pages.steps import StepView
from freezes.selectors import ActiveFreeze
from gateway import selectors as gateway
from models_registry.facts.comparison import VersionComparison
from models_registry.selectors import versions
from releases import bake
from releases.approving import ApprovalCount, approvers_of, count_of, in_whose_place
from releases.freezing import freeze_holding
from releases.judge.threshold import Threshold
from releases.judge.verdict import JudgeVerdict
from releases.messages import ReleaseMessage
from releases.models import Approval, Release, ReleaseMove, ReleaseStep
from releases.pages import actions, analysis, curves, lanes, notice, strip, values
from releases.pages.changes import ChangeLine, change_lines, in_words
from releases.pages.measured import MeasuredTable, measured_of
from releases.pages.starting import StartingWorkers, starting_workers
from releases.pages.traffic_charts import moments_of, span_over, traffic_charts
from releases.plans.plan import PlanSpec
from releases.plans.step import kinds_with
from releases.policy import PolicyTerm
from releases.sampling import sampler
from releases.selectors.plans import plan_of, shortfalls_of
from releases.selectors.releases import (
    DECISIONS,
    WaitingFor,
    curve_of,
    decision_of,
    evidence_of,
    threshold_of,
    verdict_of,
    waiting_for_what,
    weights,
)
from releases.selectors.services import slow_thresholds
from releases.states import StepState

MOVES_SHOWN = 100
P95_OVER = timedelta(minutes=10)
APPROVERS_SHOWN = 6


class ReleasePage:
    def __init__(self, release: Release, actor: Actor) -> None:
        self.release = release
        self._actor = actor

    @cached_property
    def plan(self) -> PlanSpec:
        return plan_of(self.release)

    @cached_property
    def step_rows(self) -> list[ReleaseStep]:
        return list(self.release.steps.all())

    @cached_property
    def deployment(self) -> Deployment | None:
        """The candidate's, while or after it has one."""
        return fleet.visible_deployment(self._actor, self.release.candidate_deployment)

    @cached_property
    def strip(self) -> list[StepView]:
        return strip.strip_of(self.release, self.plan, self.step_rows)

    @cached_property
    def approvals(self) -> list[Approval]:
        return list(self.release.approvals.select_related("by", "on_behalf_of").order_by("at"))

    @cached_property
    def waiting(self) -> WaitingFor | None:
        return waiting_for_what(self.release)

    @cached_property
    def count(self) -> ApprovalCount | None:
        """Return where the approval at hand stands; None: it waits for none."""
        terms = self.plan.steps[self.release.step_index].approval
        if terms is None or self.waiting is None or self.waiting.kind != "approval":
            return None
        return count_of(self.release, terms, self.approvals)

    @property
    def word(self) -> Approval | None:
        """Return the last decision on the approval at hand, if enough people have decided."""
        return self.count.given[-1] if self.count and not self.count.missing else None

    @property
    def given_by(self) -> list[str]:
        return [one.who for one in self.count.given] if self.count else []

    @property
    def void_by(self) -> list[str]:
        return [one.who for one in self.count.void] if self.count else []

    @cached_property
    def acts_for(self) -> User | None:
        """Return the person in whose place this one may decide."""
        if self.count is None or not self.decisions:
            return None
        return in_whose_place(self.release, self._actor, self.count)

    @cached_property
    def evidence(self) -> list[tuple[str, str]]:
        """Return what the steps before the approval have found, a line each."""
        return [
            (self.plan.steps[row.index].name(), str(row.told))
            for row in self.step_rows
            if row.index < self.release.step_index and row.told
        ]

    @cached_property
    def if_approved(self) -> tuple[str, ...]:
        return actions.if_approved(self.release, self.plan)

    @cached_property
    def if_rejected(self) -> str:
        return actions.if_rejected(self.release)

    @cached_property
    def frozen(self) -> ActiveFreeze | None:
        """Return the freeze that keeps it where it is."""
        return freeze_holding(self.release) if self.release.in_motion else None

    @cached_property
    def notice(self) -> notice.ReleaseNotice | None:
        return notice.notice_of(self.release, self.waiting, self.word, self.frozen)

    @cached_property
    def decisions(self) -> list[actions.ReleaseAction]:
        return actions.decisions(self.release, self.plan, self._actor, self.count)

    @cached_property
    def on_timeout(self) -> str:
        terms = self.plan.steps[self.release.step_index].approval
        return terms.on_timeout if terms else ""

    @cached_property
    def kept_from_approving(self) -> str:
        """Return why this person may not approve what waits for an approval."""
        return actions.kept_from_approving(self.release, self._actor, self.count) if self.count else ""

    @cached_property
    def shortfalls(self) -> Sequence[PolicyTerm]:
        return shortfalls_of(self.release)

    @cached_property
    def approvers(self) -> Sequence[User]:
        """Who else could say the word; a few of them."""
        if self.count is None:
            return []
        people = approvers_of(self.release, self.count.rules)
        return [person for person in people[: APPROVERS_SHOWN + 1] if person.pk != self._actor.user_id]

    @cached_property
    def operations(self) -> list[actions.ReleaseAction]:
        return actions.operations(self.release, self._actor, is_serving=self.is_serving, frozen=self.frozen)

    @property
    def is_serving(self) -> bool:
        # Workers that a rollback took over are those of an earlier release, too.
        is_last = self.release.superseded_by_id is None
        return is_last and self.release.service.stable_deployment == self.release.candidate_deployment

    @cached_property
    def warm_workers(self) -> int:
        """Kept without traffic for a rollback of this release."""
        return bake.warm_workers(self.release)

    @cached_property
    def starting(self) -> StartingWorkers | None:
        """The deploy step at hand; None at another step."""
        return starting_workers(self.release, self.step_rows)

    @property
    def brings_files(self) -> bool:
        """Whether a step at hand brings model files before there are workers."""
        at_hand = next((one for one in self.step_rows if one.index == self.release.step_index), None)
        if at_hand is None or at_hand.kind not in kinds_with("brings_files"):
            return False
        return self.release.in_motion and at_hand.state == StepState.RUNNING

    @cached_property
    def changes(self) -> VersionComparison | None:
        """Return what is different in the new version; None when there is nothing to compare it with."""
        before = self.release.from_version
        return versions.compare_versions(before, self.release.version) if before else None

    @cached_property
    def change_words(self) -> str:
        """`2 of 7 files changed (12.4 MB), 1 added; 3 config keys differ`"""
        return in_words(self.changes) if self.changes else ""

    @cached_property
    def change_lines(self) -> list[ChangeLine]:
        """Return what is different, a line each, for whoever decides."""
        before, found = self.release.from_version, self.changes
        return change_lines(before, self.release.version, found) if before and found else []

    @cached_property
    def measured(self) -> MeasuredTable | None:
        """Return benchmarks of both versions, for whoever decides."""
        return measured_of(self.release)

    @cached_property
    def lanes(self) -> list[lanes.Lane]:
        return lanes.lanes_of(self.release.service, self.release, self._looks)

    @cached_property
    def counted_by(self) -> str:
        return gateway.counted_by(self.release.service.cluster_id)

    @cached_property
    def not_counted(self) -> str:
        return gateway.not_counted(self.release.service.cluster_id)

    @cached_property
    def weights(self) -> dict[str, Any]:
        return weights(self.release)

    @cached_property
    def split_basis(self) -> str:
        return values.split_basis(self.weights)

    @cached_property
    def verdict(self) -> JudgeVerdict | None:
        return verdict_of(self.release)

    @property
    def decision(self) -> str:
        return decision_of(self.release, self.verdict)

    decisions_known = DECISIONS

    @cached_property
    def indicators(self) -> list[analysis.IndicatorRow]:
        evidence = evidence_of(self.release)
        thresholds = dict(evidence.thresholds_ms) if evidence else {}
        if self.threshold:
            thresholds["slow"] = self.threshold.milliseconds
        return curves.indicators_of(
            self.plan,
            curve_of(self.release),
            self.verdict,
            self.step_rows,
            thresholds_ms=thresholds,
        )

    @cached_property
    def threshold(self) -> Threshold | None:
        return threshold_of(self.release)

    @property
    def threshold_warning(self) -> str:
        if self.release.in_motion and self._is_always_saturated:
            return analysis.threshold_warning(self.threshold, is_always_saturated=True)
        return analysis.threshold_warning(self.threshold) if self._is_threshold_open else ""

    @cached_property
    def threshold_actions(self) -> list[actions.ReleaseAction]:
        return actions.threshold(self.release, self.threshold, self._actor) if self.threshold_warning else []

    @cached_property
    def _is_threshold_open(self) -> bool:
        """Whether nobody has said a word about it since."""
        if self.threshold is None or not self.threshold.is_held:
            return False
        latest = slow_thresholds(self.release.service).first()
        return latest is None or latest.at < self.release.created_at

    @cached_property
    def conclusions(self) -> list[tuple[str, str]]:
        return list(analysis.conclusions(self.release, self.plan, self.verdict).items())

    @property
    def forecast(self) -> str:
        return analysis.forecast_of(self.verdict)

    @cached_property
    def statistics(self) -> list[tuple[str, str]]:
        evidence = evidence_of(self.release)
        return analysis.statistics(
            self.plan.judge,
            evidence,
            self.threshold,
            self.verdict,
            is_always_saturated=self._is_always_saturated,
        )

    @property
    def _is_always_saturated(self) -> bool:
        return self.threshold is None and bool(self.release.baseline.get("is_always_saturated"))

    @cached_property
    def p95_words(self) -> str:
        """The difference that users feel, before any verdict on it; empty while it is not measured."""
        if not self.release.in_motion or not self.release.from_version_id:
            return ""
        now = timezone.now()
        began = max(self.release.created_at, now - P95_OVER)
        found = gateway.traffic_history(self.release.service.name, since=began, until=now, step=P95_OVER)
        names = self.release.candidate_deployment, self.release.stable_deployment
        for targets in (one.targets or {} for one in reversed(found)):
            quantiles = [targets[name].latency_ms.p95 for name in names if name in targets]
            if len(quantiles) == 2:
                return analysis.p95_words(*quantiles)
        sides = {lane.side: lane.traffic.p95 for lane in self.lanes}
        live = [sides.get(lanes.CANDIDATE), sides.get(lanes.STABLE)]
        return analysis.p95_words(*(None if one is None else one * 1000 for one in live))

    @cached_property
    def saturation_warning(self) -> str:
        """Return a warning; empty unless all of stable's workers are saturated, no measure of speed then."""
        stable = next((one.status for one in self.lanes if one.side == lanes.STABLE), None)
        return analysis.saturation_warning(stable) if self.release.in_motion else ""

    @property
    def sides(self) -> str:
        """Names of the charts' lines; asked for again by a page that shows others."""
        return ",".join(values.sides_of(self.release.service, self.release))

    @cached_property
    def charts(self) -> list[Any]:
        """Return charts from the release's start on; of a longer one than a day, its last day."""
        until = self.release.ended_at or timezone.now()
        span = span_over(until - self.release.created_at)
        began_at = max(self.release.created_at, until - span.length)
        return traffic_charts(
            moments_of(
                gateway.traffic_history(
                    self.release.service.name, since=began_at, until=until, step=span.step
                ),
                [look for look in self._looks if look.at >= began_at.timestamp()] if span.is_fine else (),
            ),
            values.sides_of(self.release.service, self.release),
            span=span,
            since=began_at,
            until=self.release.ended_at,
        )

    @cached_property
    def probes(self) -> list[dict[str, Any]]:
        """The smoke test's questions and answers, of the steps that are over and of the one at hand."""
        found: list[dict[str, Any]] = []
        for row in self.step_rows:
            if row.kind in kinds_with("probes"):
                at_hand = row.index == self.release.step_index and self.release.in_motion
                known = row.detail if row.ended_at or not at_hand else self.release.progress
                found += known.get("probes", [])
        return [
            {**probe, "fault": ReleaseMessage.kept(probe["fault"], probe["fault_message"])} for probe in found
        ]

    @cached_property
    def samples(self) -> list[dict[str, str]]:
        """Answers of both sides to the same request, of the steps that have kept some."""
        found: list[dict[str, str]] = []
        for row in self.step_rows:
            known = row.detail or (self.release.progress if row.index == self.release.step_index else {})
            found += known.get("samples", known.get("lost", []))
        return found

    @cached_property
    def moves(self) -> list[ReleaseMove]:
        """Newest first."""
        return list(self.release.moves.order_by("-pk")[:MOVES_SHOWN])

    @cached_property
    def _looks(self) -> Sequence[Any]:
        return sampler.seen(self.release.service.name) if self.release.in_motion else ()
