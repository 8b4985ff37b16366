"""Facts of task graphs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GraphPlanMoved:
    """A plan of a graph was made, could not be made, was started or was replaced."""

    plan_id: int
    graph_id: int
