from common.errors import Conflict, Invalid, NotAllowed


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


class UnknownPlan(Invalid):
    """There is no such plan."""


class InvalidPlan(Invalid):
    """The plan contradicts itself; `fields` maps places in the plan to what is wrong there."""


class InvalidService(Invalid):
    """The service's definition is not usable; `fields` maps its fields to what is wrong."""
