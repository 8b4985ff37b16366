from typing import ClassVar

from django.db import models
from django.db.models import Q

from accounts.querysets import TeamOrShared
from common import clock
from common.reconcile import Reconciled
from gpu_health.models.drills import Drill
from gpu_health.models.findings import Finding
from gpu_health.policy.presets import fault_title
from gpu_health.states import (
    ENDED_INCIDENTS,
    DrainScope,
    FindingSeverity,
    IncidentState,
    RuleVerification,
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
    state_since = models.DateTimeField(default=clock.now, editable=False)
    reason = models.TextField(blank=True, editable=False)
    """Why it is where it is."""
    hold = models.CharField(max_length=30, blank=True, editable=False)
    """The guard that holds it; blank: none."""
    hold_reason = models.TextField(blank=True, editable=False)
    session = models.CharField(max_length=100, blank=True, editable=False)
    """`boot_id` of the machine that it is about."""
    is_quarantined = models.BooleanField(default=False, editable=False)
    """Cordon and taint were placed, or are about to be: the machine counts as out of service."""
    former_cordon = models.JSONField(null=True, editable=False)
    """`{by, reason}` of whoever had cordoned the machine before: it stays theirs."""
    has_operands_paused = models.BooleanField(default=False, editable=False)
    """Operands of the GPU operator were paused for its action, or are about to be: they are brought back."""
    check_failed = models.BooleanField(default=False, editable=False)
    evidence = models.JSONField(default=dict, editable=False)
    check_result = models.JSONField(null=True, editable=False)
    """What the last check Job found."""

    held_by = models.CharField(max_length=200, blank=True, editable=False)
    """A person who keeps it from going on; blank: nobody."""
    held_reason = models.TextField(blank=True, editable=False)
    cancel = models.CharField(max_length=10, blank=True, editable=False)
    """`leave` or `return`, once a person has cancelled it; `over` once its drill is."""
    cancelled_by = models.CharField(max_length=200, blank=True, editable=False)
    asked_at = models.DateTimeField(null=True, editable=False)
    """Since when an approval is waited for."""
    approved_climb = models.PositiveIntegerField(default=0, editable=False)
    """The `climb` that was approved last."""
    approved_by = models.CharField(max_length=200, blank=True, editable=False)
    returns_approved = models.BooleanField(default=False, editable=False)

    first_at = models.DateTimeField()
    """When the fault was first seen."""
    opened_at = models.DateTimeField(default=clock.now, editable=False)
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
    def is_out_of_service(self) -> bool:
        """Whether cordon and taint may be there; while it is proposed, they are not."""
        return self.is_quarantined and self.state != IncidentState.PROPOSED

    @property
    def action(self) -> str:
        """The action of the present rung; beyond the end of the ladder, the last."""
        return str(self.ladder[min(self.rung, len(self.ladder) - 1)])

    @property
    def is_approved(self) -> bool:
        return self.approved_climb == self.climb

    @property
    def hold_badge(self) -> str:
        """Name among the badges `gpu_hold`; empty: nothing holds it."""
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
