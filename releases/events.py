from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReleaseMoved:
    """A release went from one state, step or phase to another."""

    release_id: int
    service_id: int


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    release_id: int
    step_index: int


@dataclass(frozen=True, slots=True)
class ReleaseEnded:
    release_id: int
    service_id: int
    state: str


@dataclass(frozen=True, slots=True)
class ServiceChanged:
    service_id: int
