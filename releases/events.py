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
class ApprovalDue:
    """The deadline of an approval is near, and nobody has decided."""

    release_id: int
    step_index: int


@dataclass(frozen=True, slots=True)
class ReleaseNotified:
    """A release came to a step of its plan that tells of it."""

    release_id: int
    step_index: int
    message: str


@dataclass(frozen=True, slots=True)
class ReleaseEnded:
    release_id: int
    service_id: int
    state: str


@dataclass(frozen=True, slots=True)
class ServiceChanged:
    service_id: int


@dataclass(frozen=True, slots=True)
class RollbackStarted:
    """A person rolls a promoted release back, by a release that nobody has to approve."""

    release_id: int
    """The one that is rolled back."""


@dataclass(frozen=True, slots=True)
class FreezeOverridden:
    """A person let a release go on in spite of a freeze."""

    release_id: int


@dataclass(frozen=True, slots=True)
class PolicyBypassed:
    """A release was started whose plan falls short of the release policy."""

    release_id: int


@dataclass(frozen=True, slots=True)
class PolicyLowered:
    """A team, a service or a plan demands less than before; the audit record says what, who and why."""

    audit_seq: int
