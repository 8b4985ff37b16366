from common.errors import Conflict, Invalid


class InvalidOptimization(Invalid):
    """The optimisation makes no sense; `fields` says which part and why."""


class OptimizationEnded(Conflict):
    """The optimisation has ended already."""
