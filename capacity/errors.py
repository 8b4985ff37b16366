from common.errors import Conflict, Invalid


class InvalidPool(Invalid):
    """A pool or a membership contradicts itself or another; `fields` says where."""


class CapacityStopped(Conflict):
    """The kill switch of capacity is on."""


class PlanNotOpen(Conflict):
    """The plan is not in the state that the wish needs, or another plan of its pool is under way."""


class InvalidWorkload(Invalid):
    """A workload cannot be run as it is described; `fields` says why."""


class WorkloadNotThere(Conflict):
    """The workload is not in a state in which it can do what is wished."""
