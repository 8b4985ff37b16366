"""Facts of capacity."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkersMoved:
    """A plan changed how many workers a service has: what others keep of that number follows."""

    service: str
    workers: int


@dataclass(frozen=True, slots=True)
class CapacityPlanMoved:
    """A plan was proposed, or its state changed."""

    plan_id: int
    pool_id: int


@dataclass(frozen=True, slots=True)
class WorkloadMoved:
    """A workload was queued, changed its state, or was asked for something."""

    workload_id: int


@dataclass(frozen=True, slots=True)
class QueueWillBeLate:
    """The work of a service's queue will not be done by its deadline."""

    queue_id: int
