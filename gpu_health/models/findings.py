from typing import ClassVar

from django.db import models
from django.db.models import Q

from accounts.querysets import TeamOrShared
from common import clock
from gpu_health.models.drills import Drill
from gpu_health.policy.presets import fault_title
from gpu_health.signals.reading import MAX_RAW, GpuReading, ReadingClock, ReadingKind, ReadingSource, details
from gpu_health.states import (
    DrainScope,
    FindingOutcome,
    FindingSeverity,
    FindingState,
    RuleVerification,
)


class StoredReading(models.Model):
    """A `GpuReading`, as it came; never changed."""

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
    boot_id = models.CharField(max_length=100, blank=True)
    """The start of the machine in which it was seen; blank: its source does not say."""
    received_at = models.DateTimeField(default=clock.now, editable=False)
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

    def reading(self) -> GpuReading:
        return GpuReading(
            source=ReadingSource(self.source),
            fault=self.fault,
            kind=ReadingKind(self.kind),
            at=self.at.timestamp(),
            clock=ReadingClock.EPOCH,
            node=str(self.node_id),
            gpu_bus_id=self.gpu_bus_id,
            gpu_uuid=self.gpu_uuid,
            value=self.value,
            details=details(self.details),
            raw=self.raw,
            origin=self.origin,
            boot=self.boot_id,
        )


class FindingQuerySet(TeamOrShared["Finding"]):
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
    opened_at = models.DateTimeField(default=clock.now, editable=False)
    ended_at = models.DateTimeField(null=True, editable=False)
    closed_by = models.CharField(max_length=200, blank=True, editable=False)
    close_reason = models.TextField(blank=True, editable=False)
    judged_to = models.PositiveBigIntegerField(default=0, editable=False)
    """The last reading that it was judged by; what a closed one was judged by counts for no other."""
    rule_book = models.CharField(max_length=16, blank=True, editable=False)
    """The digest of the rules that it was judged by: by others it is judged anew."""
    drill = models.ForeignKey(Drill, on_delete=models.CASCADE, null=True, editable=False, related_name="+")
    """The one that plays it; None: it is real."""

    objects = FindingQuerySet.as_manager()

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
