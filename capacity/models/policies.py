"""Policies of scaling, and the recorded load that they are tried on."""

from typing import Any, ClassVar, Self

from django.db import models
from django.db.models import Exists, OuterRef

from accounts.querysets import TeamOwned
from capacity.models.pools import PoolMember
from common import clock


class PolicyRows(TeamOwned["ScalingPolicy"]):
    team_path = "member__pool__team"

    def with_force(self) -> Self:
        """Add `is_active`: whether it is the latest of its service, which is the one in force."""
        later = ScalingPolicy.objects.filter(member=OuterRef("member"), number__gt=OuterRef("number"))
        return self.annotate(is_active=~Exists(later))


class ScalingPolicy(models.Model):
    """A version of a service's scaling law. Versions never change; the latest is in force."""

    member = models.ForeignKey(PoolMember, on_delete=models.CASCADE, related_name="+")
    number = models.PositiveIntegerField(default=1)
    law = models.JSONField(default=dict)
    """Of `capacity.planning.policies.SETTABLE`; what is not there follows from the switch time."""
    reason = models.TextField(blank=True)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(default=clock.now)

    objects = PolicyRows.as_manager()

    class Meta:
        ordering: ClassVar = ["-pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["member", "number"], name="policy_number_once")
        ]

    def __str__(self) -> str:
        return f"{self.member.service} {self.number}"


class ServiceLoad(models.Model):
    """The load of a service in one minute, as it was seen."""

    member = models.ForeignKey(PoolMember, on_delete=models.CASCADE, related_name="+")
    minute = models.PositiveBigIntegerField()
    """Whole minutes since 1970."""
    at = models.DateTimeField()
    samples = models.JSONField(default=list)
    """`[seconds since 1970, load in workers, workers, workers online]` of each look; null: no groups."""

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["member", "minute"], name="one_load_a_minute")
        ]
        indexes: ClassVar = [models.Index(fields=["at"], name="service_load_by_age")]

    def __str__(self) -> str:
        return f"{self.at:%H:%M}"


class SwitchTimeRows(TeamOwned["SwitchTime"]):
    team_path = "model__team"


class SwitchTime(models.Model):
    """Times of a model on a kind of machine, smoothed over the last plans; None: not measured."""

    model = models.ForeignKey("models_registry.Model", on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=100)
    """Name of its GPUs, or `CPU`."""
    drain_seconds = models.FloatField(null=True)
    """From the order to give a worker away until it is gone."""
    load_seconds = models.FloatField(null=True)
    """That its process took to load files and engine, as it says."""
    start_seconds = models.FloatField(null=True)
    """From the order of a worker until it has loaded its files and answers."""

    objects = SwitchTimeRows.as_manager()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["model", "kind"], name="one_switch_time")]

    def __str__(self) -> str:
        return f"{self.model} {self.kind}"

    @property
    def ready_seconds(self) -> float | None:
        """Return the rest of the start: to find a place, to begin, to check itself, and to be seen ready."""
        if self.start_seconds is None or self.load_seconds is None:
            return None
        return max(0.0, self.start_seconds - self.load_seconds)


class MachineFiles(models.Model):
    """A machine to which the files and the image of a version have come, and where they may still lie.

    A preference of plans and nothing more: what has gone is fetched again."""

    node = models.ForeignKey("clusters.Node", on_delete=models.CASCADE, related_name="+")
    version = models.ForeignKey("models_registry.Version", on_delete=models.CASCADE, related_name="+")
    seen_at = models.DateTimeField(default=clock.now)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["node", "version"], name="files_once_on_machine")
        ]

    def __str__(self) -> str:
        return f"{self.version} {self.node}"


def active_law(member: PoolMember) -> dict[str, Any]:
    """Return what the policy in force sets; empty where there is none."""
    row = ScalingPolicy.objects.filter(member=member).order_by("-number").first()
    return dict(row.law) if row else {}
