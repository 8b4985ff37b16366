from common.errors import SlipwayError


class ReleaseError(SlipwayError):
    """Anything that a release refuses."""


class NotReleasable(ReleaseError):
    """This version cannot be released to this service."""


class AlreadyInMotion(ReleaseError):
    """The service has a release in motion already."""


class NotPossibleNow(ReleaseError):
    """The release is not in a state in which this can be done."""


class NotWaiting(ReleaseError):
    """The release does not wait for this approval (any more)."""


class SeparationOfDuties(ReleaseError):
    """Whoever asked for a release may not approve it."""


class UnknownPlan(ReleaseError):
    """There is no such plan."""


class InvalidPlan(ReleaseError):
    """The plan contradicts itself; `faults` maps the place in the plan to what is wrong there."""

    def __init__(self, message: str, faults: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.faults = faults or {}


class InvalidService(ReleaseError):
    """The service's definition is not usable; `faults` maps fields to what is wrong."""

    def __init__(self, message: str, faults: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.faults = faults or {}
