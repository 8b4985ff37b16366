from common.errors import Conflict, Invalid


class InvalidBenchmark(Invalid):
    """It cannot be meant; `fields` says which part and why."""


class BenchmarkEnded(Conflict):
    """It has ended already."""
