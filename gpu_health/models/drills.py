from typing import ClassVar

from django.db import models
from django.db.models import Q

from accounts.querysets import TeamOrShared
from common import clock
from common.reconcile import Reconciled
from gpu_health.drills.scenarios import Scenario, scenarios
from gpu_health.states import ENDED_DRILLS, DrillState, DrillWay


class DrillCluster(models.Model):
    """A test cluster: faults may be played on its machines. No row, no drill."""

    cluster = models.OneToOneField("clusters.Cluster", on_delete=models.CASCADE, related_name="+")
    marked_by = models.CharField(max_length=200)
    marked_at = models.DateTimeField(default=clock.now, editable=False)
    reason = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = ["pk"]

    def __str__(self) -> str:
        return self.cluster.name


class DrillRows(TeamOrShared["Drill"]):
    team_path = "node__cluster__team"


class Drill(Reconciled):
    """A fault that is played on a machine of a test cluster, and how it goes from there."""

    node = models.ForeignKey("clusters.Node", on_delete=models.CASCADE, related_name="+")
    scenario = models.CharField(max_length=60)
    way = models.CharField(max_length=20, choices=DrillWay.choices)
    acts = models.BooleanField(default=False)
    """The machine is quarantined, drained and returned; its repairs are played. Else a dry run."""
    gpus = models.PositiveSmallIntegerField(default=8)
    """That the machine has while it is played."""
    gpu = models.PositiveSmallIntegerField(default=0)
    """Index of the one that falls ill."""
    state = models.CharField(
        max_length=20, choices=DrillState.choices, default=DrillState.PREPARING, editable=False
    )
    state_since = models.DateTimeField(default=clock.now, editable=False)
    why = models.TextField(blank=True, editable=False)
    outcome = models.CharField(max_length=20, choices=DrillState.choices, blank=True, editable=False)
    """How it will have ended once the machine is as before."""
    former_condition = models.JSONField(null=True, editable=False)
    """`{condition}`: the one of the node in whose place the drill's is, null where there was none."""
    expected = models.JSONField(default=dict, editable=False)
    """`{outcome, severity, ladder, drain, rule}`: what the rules in force said of the fault as it began."""
    ordered_by = models.CharField(max_length=200, editable=False)
    reason = models.TextField(blank=True, editable=False)
    ordered_at = models.DateTimeField(default=clock.now, editable=False)
    played_at = models.DateTimeField(null=True, editable=False)
    """When the fault was there to be seen."""
    ended_at = models.DateTimeField(null=True, editable=False)
    """From then on nothing that was seen of it counts."""
    cancelled_by = models.CharField(max_length=200, blank=True, editable=False)
    report = models.JSONField(null=True, editable=False)
    """As `gpu_health.drills.reports` composed it at the end."""

    objects = DrillRows.as_manager()

    class Meta(Reconciled.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["node"], condition=~Q(state__in=ENDED_DRILLS), name="gpu_drill_open_once"
            )
        ]
        ordering: ClassVar = ["-ordered_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.title} ({self.node.name})"

    @property
    def played(self) -> Scenario | None:
        """The scenario of the drill; None: a later release has dropped it."""
        return scenarios().get(self.scenario)

    @property
    def title(self) -> str:
        return self.played.title if self.played else self.scenario

    @property
    def is_open(self) -> bool:
        return self.state not in ENDED_DRILLS
