from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FindingOpened:
    """A fault of a machine or GPU was judged to be one."""

    finding_id: int


@dataclass(frozen=True, slots=True)
class FindingEnded:
    """Its source has taken it back, or a person has closed it."""

    finding_id: int


@dataclass(frozen=True, slots=True)
class IncidentOpened:
    incident_id: int


@dataclass(frozen=True, slots=True)
class IncidentMoved:
    incident_id: int
    state: str


@dataclass(frozen=True, slots=True)
class IncidentApprovalAsked:
    """An incident waits until a person has approved it."""

    incident_id: int


@dataclass(frozen=True, slots=True)
class IncidentEnded:
    incident_id: int


@dataclass(frozen=True, slots=True)
class NodeQuarantined:
    """A machine is being taken out of service for the sake of its GPUs; its pods are drained next."""

    node_id: int
    incident_id: int


@dataclass(frozen=True, slots=True)
class NodeReturned:
    """Healing keeps the machine out of service no more."""

    node_id: int
    incident_id: int


@dataclass(frozen=True, slots=True)
class HealingBreakerOpened:
    pool_id: int


@dataclass(frozen=True, slots=True)
class HealingStopped:
    """Somebody has thrown the kill switch."""

    by: str


@dataclass(frozen=True, slots=True)
class HealingResumed:
    by: str
