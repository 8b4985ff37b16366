"""What can go wrong with releases, in their own words."""

from dataclasses import dataclass

from common.errors import SlipwayError


class ReleaseError(SlipwayError):
    """Anything a release can refuse or fail."""


@dataclass(frozen=True, slots=True)
class PlanProblem:
    path: str
    """Where, as in "steps.2.seconds"; empty for the plan as a whole."""
    message: str
    """What is wrong and what to do, in words that name the step."""


class InvalidPlan(ReleaseError):
    """The plan cannot be carried out as written."""

    def __init__(self, problems: tuple[PlanProblem, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(problem.message for problem in problems))
