"""What the next step of an incident is decided by."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gpu_health.policy.rule import DrainLevel, RemediationAction, Severity, Verification


class IncidentStage(StrEnum):
    """The same words as gpu_health.states.IncidentState."""

    PROPOSED = "proposed"
    QUARANTINING = "quarantining"
    QUARANTINED = "quarantined"
    DRAINING = "draining"
    COLLECTING = "collecting"
    ACTING = "acting"
    VERIFYING = "verifying"
    RETURNING = "returning"
    WATCHING = "watching"
    NEEDS_PERSON = "needs_person"
    CLOSED = "closed"
    CANCELLED = "cancelled"


ENDED = frozenset({IncidentStage.CLOSED, IncidentStage.CANCELLED})
OUT_OF_SERVICE = frozenset(
    {
        IncidentStage.QUARANTINING,
        IncidentStage.QUARANTINED,
        IncidentStage.DRAINING,
        IncidentStage.COLLECTING,
        IncidentStage.ACTING,
        IncidentStage.VERIFYING,
        IncidentStage.RETURNING,
        IncidentStage.NEEDS_PERSON,
    }
)
"""In these the machine may be cordoned by the incident."""


TOLD_ONLY = frozenset({RemediationAction.IGNORE, RemediationAction.ALERT})
"""The incident itself is what tells of them: the next rung follows at once."""
FOR_PEOPLE = frozenset(
    {RemediationAction.CONTACT_SUPPORT, RemediationAction.CORDON, RemediationAction.FIELD_DIAGNOSTIC}
)
"""What is left to do is a person's, on a machine that is out of service."""


class CordonOwner(StrEnum):
    """Who keeps new pods off a machine."""

    NOBODY = "nobody"
    OURS = "ours"
    THEIRS = "theirs"


class WorkProgress(StrEnum):
    NOT_BEGUN = "not_begun"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    IMPOSSIBLE = "impossible"
    """It cannot be done there; the words say why."""


@dataclass(frozen=True, slots=True)
class MachineWork:
    """Something that takes a while on the machine, as it is seen now."""

    progress: WorkProgress = WorkProgress.NOT_BEGUN
    words: str = ""

    @property
    def has_ended(self) -> bool:
        return self.progress not in (WorkProgress.NOT_BEGUN, WorkProgress.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingFacts:
    pk: int
    fault: str
    device: str = ""
    severity: Severity
    acts: bool
    """Something is to be done about it: by itself, or once a person has approved."""
    by_itself: bool
    """Its rule acts; else it proposes."""
    ladder: tuple[RemediationAction, ...]
    drain: DrainLevel
    verification: Verification
    first_at: datetime
    last_at: datetime
    boot_id: str = ""
    """The start of the machine in which it was seen last; empty: not known."""
    is_open: bool = True
    waived: str = ""
    """Why the rules in force ask for nothing about it, in words; empty: they do, or its source ended it."""

    @property
    def is_actionable(self) -> bool:
        return self.is_open and self.acts


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentMachine:
    """The machine as it is seen now; `act`, `evidence` and `check` are of the incident's rung."""

    is_present: bool = True
    boot_id: str = ""
    cordon: CordonOwner = CordonOwner.NOBODY
    has_taint: bool = False
    pods_left: int = 0
    """Of ours; told where the ladder asks for a person."""
    drain: MachineWork = MachineWork()
    evidence: MachineWork = MachineWork()
    act: MachineWork = MachineWork()
    check: MachineWork = MachineWork()


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentFacts:
    stage: IncidentStage
    stage_since: datetime
    lead: FindingFacts | None
    """The finding whose ladder is climbed, as it is now; None: it was deleted."""
    ladder: tuple[RemediationAction, ...]
    rung: int = 0
    rule_drain: DrainLevel = DrainLevel.NONE
    verification: Verification = Verification.NONE
    session: str = ""
    """`boot_id` of the machine when the incident began or was last verified by a restart of its own."""
    acted_at: datetime | None = None
    """When the last action was over, or the machine was found to be restarted."""
    is_quarantined: bool = False
    """Cordon and taint were placed, or were about to be."""
    check_failed: bool = False
    """A verification has failed and no action was tried since."""
    cancel: str = ""
    """`leave` the machine as it is, `return` it to service, or `over`: its drill has ended."""
    returns_approved: bool = False
    """A person has said that the machine may return."""

    @property
    def action(self) -> RemediationAction:
        """The action of the present rung; beyond the end of the ladder, the last."""
        return self.ladder[min(self.rung, len(self.ladder) - 1)]

    @property
    def is_exhausted(self) -> bool:
        return self.rung >= len(self.ladder)

    @property
    def drain(self) -> DrainLevel:
        """Before the action of this rung: what the rule asks for, or the action needs."""
        if not self.action.touches_node:
            return DrainLevel.NONE
        return max(self.rule_drain, self.action.least_drain, key=lambda one: one.rank)


@dataclass(frozen=True, slots=True)
class GuardRefusal:
    """A guard does not let it go on, at the moment or until a person acts."""

    guard: str
    words: str
    stops_all: bool = False
    """Nothing is done at all, whatever the stage."""
    gives_up: bool = False
    """No use to wait: a person takes over."""


@dataclass(frozen=True, slots=True)
class HealingDecision:
    """`to` None: it stays where it is. `hold`: the guard that holds it."""

    to: IncidentStage | None = None
    words: str = ""
    hold: str = ""
    rung: int | None = None
    lead: FindingFacts | None = None
    """Another finding leads from now on: its ladder is climbed from its first rung."""
    changes: dict[str, object] = field(default_factory=dict)
    """Columns of the incident besides: `check_failed`, `acted_at`, `session`."""
