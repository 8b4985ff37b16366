"""Give the candidate a share of the requests."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop
from pydantic import Field

from common.reconcile import Effect, Operation, StepOutcome
from releases.messages import MessageTemplate, number, text
from releases.models import Release
from releases.plans.step import StepFault, StepPosition, StepSpec, whole
from releases.progress import StepProgress
from releases.reconcilers.disturbed import blame
from releases.reconcilers.measured_split import SPLIT_MAY_LAG, measured, split_fault, split_note
from releases.reconcilers.routing import split_traffic
from releases.reconcilers.watching import EvidenceUpdate, TrafficObservation, WatchedExecutor, look
from releases.selectors.releases import is_measured_at
from releases.split import interval_percent
from releases.steps.deploy import DeployStep, no_candidate

MEASURING = "measuring"
FIRST_LOOK = timedelta(seconds=0.5)
ENOUGH = 100
"""Requests: of fewer, chance allows nearly any split."""
MEASURED_FOR = timedelta(seconds=15)
"""So long a split is waited for that tells the new weight from the one before."""
NONE_CAME = timedelta(seconds=5)
"""So long a first request is waited for."""

SENDS = MessageTemplate(
    "weight.sends",
    gettext_lazy("The gateway sends %(percent)s %% to %(version)s."),
    percent=number,
    version=text,
)


class WeightStep(StepSpec):
    label = gettext_noop("Weight")
    icon = "arrows-split"
    about = gettext_noop(
        "Give the candidate this percentage of the service's requests, and see that it gets them."
    )
    order = 40
    counts = True
    compares = True
    changes_share = True
    start = {"percent": 50}

    kind: Literal["weight"] = "weight"
    percent: Annotated[int, whole(least=1, most=100)] = Field(title=gettext_noop("Percent"))

    @property
    def candidate_percent(self) -> int:
        return self.percent

    def faults(self, place: StepPosition) -> Iterator[StepFault]:
        yield from no_candidate(place)
        deploy = place.last(DeployStep)
        if deploy is not None and deploy.share_percent is not None and self.percent > deploy.share_percent:
            few = _(
                "%(percent)s %% of the traffic would meet %(share_percent)s %% of the workers; put a "
                "deploy step with share_percent of at least %(percent)s before it"
            )
            yield StepFault(few % {"percent": self.percent, "share_percent": deploy.share_percent}, "percent")
        if self.percent <= place.percent:
            falls = _("the weight is already %(weight_percent)s %%; weights only rise")
            yield StepFault(falls % {"weight_percent": place.percent}, "percent")

    def name(self) -> str:
        return f"{self.percent}%"

    def summary(self) -> str:
        return f"{self.percent} %"

    def spoken(self) -> str:
        return _("weight %(percent)s %%") % {"percent": self.percent}

    def planned(self) -> str:
        return _("of the traffic")

    def found(self, progress: StepProgress) -> str:
        """The split as last measured at this weight, in whichever step that was: a hold or an analysis."""
        release, plan, rows, first = progress.release, progress.plan, progress.rows, progress.index
        later = (i for i in range(first + 1, len(rows)) if plan.steps[i].candidate_percent is not None)
        last = min(later, default=len(rows)) - 1
        is_here = first <= release.step_index <= last
        measures = [row.detail for row in rows[first : last + 1]]
        if is_here:
            measures.append(release.progress)
        for measure in reversed(measures):
            observed = measure.get("observed_percent")
            if observed is not None and is_measured_at(measure, self.percent):
                return _("%(percent)s%% observed") % {"percent": f"{observed:.1f}"}
        if progress.state in ("failed", "aborted", "rejected"):
            return _("not measured")
        return _("not measured yet") if release.in_motion and is_here else _("no requests to measure")

    def consequences(self, release: Release) -> tuple[str, ...]:
        words = {"percent": self.percent, "version": release.version}
        return (_("%(percent)s%% of the traffic goes to %(version)s.") % words,)

    def executor(self) -> "WeightExecutor":
        return WeightExecutor(self)


class WeightExecutor(WatchedExecutor[WeightStep]):
    """Set the weight once, then measure: it counts as reached when the split that requests see says so.

    Where few requests come, the steps after it go on measuring.
    """

    name = "weight"
    effect = Effect.ABSOLUTE

    def intent(self, row: Release) -> Mapping[str, Any]:
        return {"route": row.service.name, "candidate_percent": self.spec.percent}

    def act(self, row: Release, operation: Operation) -> None:
        if row.phase == MEASURING:
            return
        # Read just before the change, so that no stretch that is judged spans two weights.
        self._before = look(row, operation.at, is_fresh=True)
        split_traffic(row, operation, candidate_percent=self.spec.percent)

    def observe(self, row: Release, operation: Operation) -> TrafficObservation:
        return look(row, operation.at) if row.phase == MEASURING else self._before

    def needs_clock(self, row: Release) -> bool:
        return row.phase == MEASURING

    def decide(
        self, row: Release, seen: TrafficObservation, view: EvidenceUpdate | None, now: datetime
    ) -> StepOutcome:
        sends = SENDS(percent=self.spec.percent, version=row.version)
        if row.phase != MEASURING:
            save = {"candidate_percent": self.spec.percent}
            if view is None:
                # A first version, which gets all: there is nothing that it could be split from.
                return self.go_on(row, note=sends, save=save, keeps_split=False)
            before = {"percent_before": row.candidate_percent}
            return self.look_again(row, progress=before, save=save | {"phase": MEASURING}, after=FIRST_LOOK)
        progress = measured(row, seen) | {"percent_before": row.progress.get("percent_before", 0)}
        took = self.elapsed(row, now)
        if view is not None and (steady := view.clock.steady_for(now)) is not None:
            took = min(took, steady)
        if progress.get("requests") and not progress["within"]:
            if took < SPLIT_MAY_LAG:
                return self.look_again(row, progress=progress, after=FIRST_LOOK)
            return blame(row, split_fault(progress), now)
        patience = MEASURED_FOR if progress.get("requests") else NONE_CAME
        if not _is_told_apart(progress) and took < patience:
            return self.look_again(row, progress=progress, after=FIRST_LOOK)
        note = sends + split_note(progress)
        return self.go_on(row, note=note, detail=progress)


def _is_told_apart(progress: Mapping[str, Any]) -> bool:
    """Whether the split that was seen cannot be that of the weight before."""
    requests = progress.get("requests") or 0
    if requests < ENOUGH:
        return False
    low, high = interval_percent(requests, progress["percent_before"])
    return not low <= progress["observed_percent"] <= high
