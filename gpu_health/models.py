from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils import timezone

from accounts.querysets import TeamOrShared
from common.reconcile import Reconciled
from common.revisions import Revised
from gpu_health.check_models import CheckSchedule as CheckSchedule
from gpu_health.check_models import GpuCheck as GpuCheck
from gpu_health.drill_models import Drill as Drill
from gpu_health.drill_models import DrillCluster as DrillCluster
from gpu_health.healing.limits import Limits
from gpu_health.policy.presets import DEFAULT, conditions_of, fault_title
from gpu_health.policy.rule import Action, Citation, Drain, Mode, Rule, Severity, Verification
from gpu_health.price_models import GpuPrices as GpuPrices
from gpu_health.signal_models import EventReader as EventReader
from gpu_health.signal_models import NodeSignals as NodeSignals
from gpu_health.signal_models import SignalReader as SignalReader
from gpu_health.signals.reading import MAX_RAW, Clock, Kind, Reading, Source, details
from gpu_health.states import (
    ENDED_INCIDENTS,
    DrainScope,
    FindingOutcome,
    FindingSeverity,
    FindingState,
    HealingMode,
    IncidentState,
    RuleMode,
    RuleVerification,
)


class StoredReading(models.Model):
    """A `Reading`, as it came; never changed."""

    node = models.ForeignKey("clusters.Node", on_delete=models.CASCADE, related_name="+")
    source = models.CharField(max_length=30)
    fault = models.CharField(max_length=120)
    kind = models.CharField(max_length=20)
    at = models.DateTimeField()
    """When it was seen; when it came, if the source did not say or its clock is ahead."""
    gpu_bus_id = models.CharField(max_length=20, blank=True)
    gpu_uuid = models.CharField(max_length=80, blank=True)
    value = models.FloatField(null=True)
    details = models.JSONField(default=dict, blank=True)
    raw = models.CharField(max_length=MAX_RAW, blank=True)
    origin = models.CharField(max_length=120)
    """Its place within the source: what comes twice is one."""
    received_at = models.DateTimeField(default=timezone.now, editable=False)
    drill = models.ForeignKey(Drill, on_delete=models.CASCADE, null=True, editable=False, related_name="+")
    """The one that played it; once that is over it counts no more."""

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["node", "source", "origin"], name="gpu_reading_once")
        ]
        indexes: ClassVar = [models.Index(fields=["node", "at"], name="gpu_reading_of_node")]
        ordering: ClassVar = ["at", "pk"]

    def __str__(self) -> str:
        return f"{self.fault} of {self.node_id}"

    def reading(self) -> Reading:
        return Reading(
            source=Source(self.source),
            fault=self.fault,
            kind=Kind(self.kind),
            at=self.at.timestamp(),
            clock=Clock.EPOCH,
            node=str(self.node_id),
            gpu_bus_id=self.gpu_bus_id,
            gpu_uuid=self.gpu_uuid,
            value=self.value,
            details=details(self.details),
            raw=self.raw,
            origin=self.origin,
        )


class FindingRows(TeamOrShared["Finding"]):
    team_path = "node__cluster__team"


class Finding(models.Model):
    """A fault of one device or machine as it was judged last: what would be done, and why."""

    node = models.ForeignKey("clusters.Node", on_delete=models.CASCADE, related_name="+")
    fault = models.CharField(max_length=120)
    device = models.CharField(max_length=80, blank=True)
    """A GPU by its bus, else by its UUID; blank: the whole machine."""
    gpu_uuid = models.CharField(max_length=80, blank=True)
    severity = models.CharField(max_length=20, choices=FindingSeverity.choices)
    outcome = models.CharField(max_length=20, choices=FindingOutcome.choices)
    ladder = models.JSONField(default=list)
    drain = models.CharField(max_length=10, choices=DrainScope.choices)
    verification = models.CharField(max_length=30, choices=RuleVerification.choices)
    rule = models.CharField(max_length=200, blank=True)
    """Blank: no rule knows the fault."""
    citation = models.CharField(max_length=500, blank=True)
    reasons = models.JSONField(default=list)
    count = models.PositiveIntegerField(default=1)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    raw = models.CharField(max_length=MAX_RAW, blank=True)
    boot_id = models.CharField(max_length=100, blank=True)
    """The start of the machine in which it was seen last; blank: its source does not say."""
    state = models.CharField(max_length=10, choices=FindingState.choices, default=FindingState.OPEN)
    opened_at = models.DateTimeField(default=timezone.now, editable=False)
    ended_at = models.DateTimeField(null=True, editable=False)
    closed_by = models.CharField(max_length=200, blank=True, editable=False)
    close_reason = models.TextField(blank=True, editable=False)
    judged_to = models.PositiveBigIntegerField(default=0, editable=False)
    """The last reading that it was judged by; what a closed one was judged by counts for no other."""
    drill = models.ForeignKey(Drill, on_delete=models.CASCADE, null=True, editable=False, related_name="+")
    """The one that plays it; None: it is real."""

    objects = FindingRows.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["node", "fault", "device"],
                condition=Q(state=FindingState.OPEN),
                name="gpu_finding_open_once",
            )
        ]
        ordering: ClassVar = ["-last_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.title} ({self.node.name})"

    @property
    def title(self) -> str:
        return fault_title(self.fault)


class RuleChange(Revised):
    """A rule that somebody has changed, in the place of the preset's of the same name; or one more."""

    name = models.CharField(max_length=200, unique=True)
    fault = models.CharField(max_length=120, blank=True, editable=False)
    """Of a rule that the installation has added; blank: it changes a preset's."""
    enabled = models.BooleanField(default=True)
    mode = models.CharField(max_length=10, choices=RuleMode.choices)
    severity = models.CharField(max_length=20, choices=FindingSeverity.choices)
    conditions = models.CharField(max_length=500, blank=True)
    """As `policy.presets` writes them: `count=2 window_seconds=86400 same=gpc+tpc`."""
    ladder = models.JSONField(default=list)
    drain = models.CharField(max_length=10, choices=DrainScope.choices)
    verification = models.CharField(max_length=30, choices=RuleVerification.choices)
    changed_by = models.CharField(max_length=200, editable=False)
    changed_at = models.DateTimeField(default=timezone.now, editable=False)
    reason = models.TextField(blank=True, editable=False)

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name

    def rule(self, original: Rule) -> Rule:
        """In the place of `original`, whose source it keeps. Raises BadRule."""
        return self._rule(
            fault=original.fault,
            citation=Citation(source=original.citation.source, says=original.citation.says, is_inferred=True),
        )

    def own_rule(self) -> Rule:
        """One that the installation has added. Raises BadRule."""
        says = self.reason or "a rule of this installation"
        citation = Citation(source=self.changed_by, says=says[:400])
        return self._rule(fault=self.fault, citation=citation, is_own=True)

    def _rule(self, *, fault: str, citation: Citation, is_own: bool = False) -> Rule:
        return Rule(
            name=self.name,
            fault=fault,
            conditions=conditions_of(self.conditions),
            severity=Severity(self.severity),
            ladder=tuple(map(Action, self.ladder)),
            drain=Drain(self.drain),
            verification=Verification(self.verification),
            mode=Mode(self.mode),
            enabled=self.enabled,
            citation=citation,
            is_own=is_own,
        )


class IncidentRows(TeamOrShared["Incident"]):
    team_path = "node__cluster__team"


class Incident(Reconciled):
    """A machine with a fault on its way through the ladder, from the first finding to its return."""

    node = models.ForeignKey("clusters.Node", on_delete=models.CASCADE, related_name="+")
    pool = models.CharField(max_length=200)
    finding = models.ForeignKey(Finding, on_delete=models.SET_NULL, null=True, related_name="+")
    """The one that leads: its ladder is climbed."""
    fault = models.CharField(max_length=120)
    device = models.CharField(max_length=80, blank=True)
    gpu_uuid = models.CharField(max_length=80, blank=True)
    gpu_model = models.CharField(max_length=100, blank=True)
    """Of the machine when it was opened; of several the most frequent. Blank: not known."""
    gpu_count = models.PositiveSmallIntegerField(default=0)
    """Of the machine when it was opened."""
    severity = models.CharField(max_length=20, choices=FindingSeverity.choices)
    rule = models.CharField(max_length=200, blank=True)
    ladder = models.JSONField(default=list)
    rung = models.PositiveSmallIntegerField(default=0)
    """Index of the action; its length when the ladder is at its end."""
    climb = models.PositiveIntegerField(default=1)
    """Counts rungs and ladders: what was made for an earlier one counts for no later one."""
    drain = models.CharField(max_length=10, choices=DrainScope.choices)
    verification = models.CharField(max_length=30, choices=RuleVerification.choices)
    state = models.CharField(
        max_length=20, choices=IncidentState.choices, default=IncidentState.PROPOSED, editable=False
    )
    state_since = models.DateTimeField(default=timezone.now, editable=False)
    reason = models.TextField(blank=True, editable=False)
    """Why it is where it is."""
    hold = models.CharField(max_length=30, blank=True, editable=False)
    """The guard that holds it; blank: none."""
    hold_reason = models.TextField(blank=True, editable=False)
    session = models.CharField(max_length=100, blank=True, editable=False)
    """`boot_id` of the machine that it is about."""
    is_quarantined = models.BooleanField(default=False, editable=False)
    former_cordon = models.JSONField(null=True, editable=False)
    """`{by, reason}` of whoever had cordoned the machine before: it stays theirs."""
    check_failed = models.BooleanField(default=False, editable=False)
    evidence = models.JSONField(default=dict, editable=False)
    check_result = models.JSONField(null=True, editable=False)
    """What the last check Job found."""

    held_by = models.CharField(max_length=200, blank=True, editable=False)
    """A person who keeps it from going on; blank: nobody."""
    held_reason = models.TextField(blank=True, editable=False)
    cancel = models.CharField(max_length=10, blank=True, editable=False)
    """`leave` or `return`, once a person has cancelled it."""
    cancelled_by = models.CharField(max_length=200, blank=True, editable=False)
    asked_at = models.DateTimeField(null=True, editable=False)
    """Since when an approval is waited for."""
    approved_climb = models.PositiveIntegerField(default=0, editable=False)
    """The `climb` that was approved last."""
    approved_by = models.CharField(max_length=200, blank=True, editable=False)
    returns_approved = models.BooleanField(default=False, editable=False)

    first_at = models.DateTimeField()
    """When the fault was first seen."""
    opened_at = models.DateTimeField(default=timezone.now, editable=False)
    quarantined_at = models.DateTimeField(null=True, editable=False)
    drained_at = models.DateTimeField(null=True, editable=False)
    """When the last drain began."""
    acted_at = models.DateTimeField(null=True, editable=False)
    """When the last action was over."""
    acts = models.PositiveSmallIntegerField(default=0, editable=False)
    """Actions that were begun."""
    act_began_at = models.DateTimeField(null=True, editable=False)
    returned_at = models.DateTimeField(null=True, editable=False)
    ended_at = models.DateTimeField(null=True, editable=False)
    drill = models.ForeignKey(Drill, on_delete=models.CASCADE, null=True, editable=False, related_name="+")
    """The one that it belongs to: what is done to the machine's GPUs is played."""

    objects = IncidentRows.as_manager()

    class Meta(Reconciled.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["node"], condition=~Q(state__in=ENDED_INCIDENTS), name="gpu_incident_open_once"
            )
        ]
        ordering: ClassVar = ["-opened_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.title} ({self.node.name})"

    @property
    def title(self) -> str:
        return fault_title(self.fault)

    @property
    def is_open(self) -> bool:
        return self.state not in ENDED_INCIDENTS

    @property
    def action(self) -> str:
        """Of the rung; beyond the end of the ladder, the last."""
        return str(self.ladder[min(self.rung, len(self.ladder) - 1)])

    @property
    def is_approved(self) -> bool:
        return self.approved_climb == self.climb

    @property
    def hold_badge(self) -> str:
        """Of the badges `gpu_hold`; empty: nothing holds it."""
        if not self.hold:
            return ""
        if self.hold in ("kill_switch", "person"):
            return "held"
        if self.hold == "dry_run":
            return "dry_run"
        return "approval" if self.waits_for_approval else "held"

    @property
    def waits_for_approval(self) -> bool:
        return self.is_open and self.asked_at is not None and not self.is_approved


class IncidentEntry(models.Model):
    """A line of an incident's timeline; never changed."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="timeline")
    at = models.DateTimeField()
    state = models.CharField(max_length=20, choices=IncidentState.choices)
    """The state from then on."""
    actor = models.CharField(max_length=200)
    words = models.TextField()

    class Meta:
        ordering: ClassVar = ["pk"]

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S} {self.words}"


class HealingPool(models.Model):
    """Machines that stand for each other. Whoever takes a slot of a pool holds its row meanwhile."""

    name = models.CharField(max_length=200, unique=True)
    serial = models.PositiveBigIntegerField(default=0, editable=False)
    breaker_opened_at = models.DateTimeField(null=True, editable=False)
    breaker_reason = models.TextField(blank=True, editable=False)
    breaker_reset_at = models.DateTimeField(null=True, editable=False)
    """When a person last closed it: cordons of before count for it no more."""

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class HealingSlot(models.Model):
    """The licence to drain and repair one machine of a pool. There are as many as the pool's limits say."""

    pool = models.ForeignKey(HealingPool, on_delete=models.CASCADE, related_name="slots")
    number = models.PositiveIntegerField()
    incident = models.OneToOneField(Incident, on_delete=models.CASCADE, related_name="slot")
    taken_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["pool", "number"], name="gpu_healing_slot_once")
        ]
        ordering: ClassVar = ["pool", "number"]

    def __str__(self) -> str:
        return f"{self.pool} {self.number}"


class HealingPolicy(Revised):
    """Whether healing acts, and within which limits; one row, or none while nobody has changed anything."""

    ONLY = 1

    mode = models.CharField(max_length=10, choices=HealingMode.choices, default=HealingMode.DRY_RUN)
    preset = models.CharField(max_length=40, default=DEFAULT)
    """Of rules, from which the installation starts."""
    cluster_presets = models.JSONField(default=dict, blank=True)
    """By names of clusters, where it is another one."""
    dry_clusters = models.JSONField(default=list, blank=True)
    """Names of clusters in which nothing is done, whatever the mode."""
    windows = models.JSONField(default=list, blank=True)
    """`{start, end, days, time_zone}` each, see `gpu_health.healing.guards`; none: at any time."""
    drain = models.JSONField(default=dict, blank=True)
    """Of `DrainOptions`, what differs for drains by healing: `namespaces`, `grace_seconds` and the like."""
    limits = models.JSONField(default=dict, blank=True)
    """What differs from the defaults of `gpu_health.healing.limits`."""
    kill_switch_at = models.DateTimeField(null=True, editable=False)
    kill_switch_by = models.CharField(max_length=200, blank=True, editable=False)
    kill_switch_reason = models.TextField(blank=True, editable=False)

    def __str__(self) -> str:
        return "healing policy"

    @property
    def is_stopped(self) -> bool:
        return self.kill_switch_at is not None

    @property
    def figures(self) -> Limits:
        return Limits.of(self.limits)
