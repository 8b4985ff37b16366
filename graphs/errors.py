from common.errors import Conflict, Invalid, Missing


class InvalidGraph(Invalid):
    """A graph, a profile or an order of a plan makes no sense; `fields` says where."""


class GraphPlanNotReady(Conflict):
    """The plan, or the graph, is not in the state that the wish needs."""


class GraphQuotaExceeded(Conflict):
    """The active plans of a team's graphs would take more than its quota."""


class RayOrderInvalid(Invalid):
    """The graph cannot run on Ray in that cluster as it is ordered."""


class NotOfWorker(Missing):
    """A worker, or what it keeps of an item, is not there."""
