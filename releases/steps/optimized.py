"""Has an optimised version passed its accuracy check and its benchmark?"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop

from common.reconcile import StepOutcome
from optimization.selectors import run_that_made
from optimization.states import OptimizationState
from releases.messages import MessageTemplate, text
from releases.models import Release
from releases.plans.step import StepFault, StepPosition, StepSpec
from releases.reconcilers.base import Executor, halt
from releases.states import Halt
from releases.steps.deploy import DeployStep


def _state(value: str) -> str:
    return str(OptimizationState(value).label).lower()


NOT_OPTIMIZED = MessageTemplate("optimized.none", gettext_lazy("No recipe made this version."))
PASSED = MessageTemplate("optimized.passed", gettext_lazy("Optimised version %(run)s passed."), run=text)
NOT_PASSED = MessageTemplate(
    "optimized.not_passed",
    gettext_lazy("%(version)s is an optimised version that has not passed: %(run)s is %(state)s."),
    version=text,
    run=text,
    state=_state,
)


class OptimizedStep(StepSpec):
    label = gettext_noop("Optimised version")
    icon = "arrows-minimize"
    about = gettext_noop(
        "Refuse an optimised version that has not passed its accuracy check and its benchmark. Other "
        "versions pass."
    )
    order = 15
    checks = True
    starts_candidate = True

    kind: Literal["optimized"] = "optimized"

    def faults(self, place: StepPosition) -> Iterator[StepFault]:
        if place.last(DeployStep) is not None:
            yield StepFault(_("the version is already running; put this step before the deploy step"))

    def summary(self) -> str:
        return _("require that an optimised version passed")

    def planned(self) -> str:
        return _("accuracy and benchmark")

    def executor(self) -> "OptimizedExecutor":
        return OptimizedExecutor(self)


class OptimizedExecutor(Executor[OptimizedStep]):
    name = "optimized"

    def settle(self, row: Release, seen: Any, now: datetime) -> StepOutcome:
        run = run_that_made(row.version)
        if run is None:
            return self.go_on(row, note=NOT_OPTIMIZED())
        if run.state != OptimizationState.PASSED:
            message = NOT_PASSED(version=row.version, run=run.name, state=run.state)
            return halt(row, message, kind=Halt.FAIL)
        return self.go_on(row, note=PASSED(run=run.name), detail={"optimization": run.pk})
