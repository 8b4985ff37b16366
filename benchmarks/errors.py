from common.errors import Conflict, Invalid


class InvalidBenchmark(Invalid):
    """The benchmark makes no sense; `fields` says which part and why."""


class BenchmarkOver(Conflict):
    """The benchmark has ended already."""
