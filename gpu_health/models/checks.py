from typing import ClassVar

from django.db import models
from django.db.models import Q

from accounts.querysets import TeamOrShared
from common import clock
from common.reconcile import Reconciled, Singleton
from gpu_health.states import ENDED_CHECKS, CheckLevel, CheckState


class GpuCheckRows(TeamOrShared["GpuCheck"]):
    team_path = "node__cluster__team"


class GpuCheck(Reconciled):
    """A check Job of a machine, ordered by a person, or by its turn."""

    node = models.ForeignKey("clusters.Node", on_delete=models.CASCADE, related_name="+")
    level = models.PositiveSmallIntegerField(choices=CheckLevel.choices, default=CheckLevel.SHORT)
    state = models.CharField(
        max_length=20, choices=CheckState.choices, default=CheckState.WAITING, editable=False
    )
    why = models.TextField(blank=True, editable=False)
    """Why it is where it is: who is on the machine, what failed."""
    ordered_by = models.CharField(max_length=200, editable=False)
    reason = models.TextField(blank=True, editable=False)
    ordered_at = models.DateTimeField(default=clock.now, editable=False)
    waits_until = models.DateTimeField(editable=False)
    """So long it waits for the machine to be idle."""
    is_started = models.BooleanField(default=False, editable=False)
    """Its Job was seen: it is never started again."""
    began_at = models.DateTimeField(null=True, editable=False)
    ended_at = models.DateTimeField(null=True, editable=False)
    cancelled_by = models.CharField(max_length=200, blank=True, editable=False)
    report = models.JSONField(null=True, editable=False)
    """As `python -m serving.checks` wrote it."""

    objects = GpuCheckRows.as_manager()

    class Meta(Reconciled.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["node"], condition=~Q(state__in=ENDED_CHECKS), name="gpu_check_open_once"
            )
        ]
        ordering: ClassVar = ["-ordered_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.get_level_display()} of {self.node.name}"

    @property
    def is_open(self) -> bool:
        return self.state not in ENDED_CHECKS


class CheckSchedule(Singleton):
    """The row whose steps order checks of idle machines in turn."""

    class Meta(Singleton.Meta):
        pass

    def __str__(self) -> str:
        return "schedule of GPU checks"
