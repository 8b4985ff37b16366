from dataclasses import dataclass

from common.errors import Conflict, Invalid, Missing, NotAllowed


class NotReleasable(Conflict):
    """This version cannot be released to this service."""


class AlreadyInMotion(Conflict):
    """The service has a release in motion already."""


class NotPossibleNow(Conflict):
    """The release is not in a state in which this can be done."""


class NotWaiting(Conflict):
    """The release does not wait for this approval (any more)."""


class SeparationOfDuties(NotAllowed):
    """Whoever asked for a release may not approve it."""


class SignInTooOld(NotAllowed):
    """The release policy asks approvers to sign in again first."""


class BelowPolicy(NotAllowed):
    """The release, or the change, falls short of the release policy, and nobody may let that pass unsaid."""


class BypassReasonMissing(Invalid):
    """Who may let a shortfall pass must say why, in the field that is named."""


class InvalidPatch(Invalid):
    """A patch of a service's pods touches what it may not, or is none; `fields` maps places to why."""


class UnknownPatch(Missing):
    """The service has no such patch of its pods."""


class UnknownDeployment(Missing):
    """No release has made this deployment."""


class UnknownPlan(Invalid):
    """There is no such plan."""


@dataclass(frozen=True, slots=True)
class PlanProblem:
    path: str
    """Where, as in "steps.2.seconds"; empty for the plan as a whole."""
    message: str
    """What is wrong and what to do, in words that name the step."""


class InvalidPlan(Invalid):
    """The plan cannot be carried out as written; `fields` maps places in it to what is wrong there."""

    def __init__(self, problems: tuple[PlanProblem, ...]) -> None:
        self.problems = problems
        fields: dict[str, list[str]] = {}
        for problem in problems:
            fields.setdefault(problem.path or "plan", []).append(problem.message)
        super().__init__("; ".join(problem.message for problem in problems), fields=fields)


class InvalidService(Invalid):
    """The service's definition is not usable; `fields` maps its fields to what is wrong."""
