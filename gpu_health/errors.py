from common.errors import Conflict, Invalid, Missing, NotAllowed


class RuleMissing(Missing):
    pass


class FindingMissing(Missing):
    pass


class InvalidRule(Invalid):
    pass


class FindingAlreadyEnded(Conflict):
    pass


class MachineMissing(Conflict):
    """The cluster does not show the machine that a reading is of, or not yet."""


class IncidentMissing(Missing):
    pass


class IncidentAlreadyEnded(Conflict):
    pass


class NothingToApprove(Conflict):
    pass


class NotHeld(Conflict):
    pass


class PoolMissing(Missing):
    pass


class BreakerClosed(Conflict):
    pass


class InvalidPolicy(Invalid):
    pass


class CheckMissing(Missing):
    pass


class CheckEnded(Conflict):
    pass


class CheckUnderWay(Conflict):
    pass


class InvalidCheck(Invalid):
    pass


class InvalidPrices(Invalid):
    pass


class InvalidQuestion(Invalid):
    """Statistics of a time that cannot be meant."""


class DrillMissing(Missing):
    pass


class InvalidDrill(Invalid):
    pass


class NotATestCluster(Conflict):
    """Faults are played on machines of test clusters only."""


class DrillRefused(Conflict):
    """The drill cannot run now: another drill, or a real fault, has the machine."""


class DrillEnded(Conflict):
    pass


class NeedsSecondPerson(NotAllowed):
    """Whoever changed what takes an approval may not use that change alone."""


class WaitsForSecondPerson(Conflict):
    """The change is noted, and takes effect once somebody else asks for the same."""
