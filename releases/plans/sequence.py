"""Which orders of steps make sense: every step says for itself where it may stand."""

from collections.abc import Sequence

from django.utils.translation import gettext as _

from releases.errors import PlanProblem
from releases.plans.step import StepPosition, StepSpec, kinds


def sequence_problems(steps: Sequence[StepSpec]) -> tuple[PlanProblem, ...]:
    """Everything that is wrong with `steps` as a sequence; each step is valid by itself."""
    problems = [
        PlanProblem(
            f"steps.{index}.{fault.field}" if fault.field else f"steps.{index}",
            _("step %(number)s (%(kind)s): %(message)s")
            % {"number": index + 1, "kind": step.kind, "message": fault.message},
        )
        for index, step in enumerate(steps)
        for fault in step.faults(StepPosition(steps, index))
    ]
    problems += [
        PlanProblem("steps", message) for kind in kinds().values() for message in kind.faults_of_plan(steps)
    ]
    return tuple(problems)
