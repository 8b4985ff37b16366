from typing import ClassVar

from django.core.validators import RegexValidator
from django.db import models

from accounts.querysets import TeamOwned
from common import clock
from releases.states import IndicatorSource

indicator_name = RegexValidator(
    r"^[a-z][a-z0-9_]{0,63}$", "Use lower-case letters, digits and underscores, a letter first, 64 at most."
)


class ServiceIndicatorRows(TeamOwned["ServiceIndicator"]):
    team_path = "service__team"


class ServiceIndicator(models.Model):
    """A share of bad events that others than the workers count: plans judge it by its name."""

    service = models.ForeignKey("releases.Service", on_delete=models.CASCADE, related_name="indicators")
    name = models.CharField(max_length=64, validators=[indicator_name])
    source = models.CharField(max_length=12, choices=IndicatorSource.choices)
    description = models.CharField(max_length=200, blank=True)
    all_query = models.TextField(blank=True)
    """PromQL whose series count all events of a version; `$version` and `$deployment` name it."""
    bad_query = models.TextField(blank=True)
    """The same of the bad ones."""
    url = models.CharField(max_length=300, blank=True)
    """Address of the Prometheus; empty: the one that the cluster's gateway counts by."""
    defined_by = models.CharField(max_length=200)
    defined_at = models.DateTimeField(default=clock.now)

    objects = ServiceIndicatorRows.as_manager()

    class Meta:
        ordering: ClassVar = ["service", "name"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["service", "name"], name="indicator_once_in_service")
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.service}"


class PushedCount(models.Model):
    """Events of one version in one stretch of time, as somebody has pushed them. It never changes."""

    indicator = models.ForeignKey(ServiceIndicator, on_delete=models.CASCADE, related_name="counts")
    version = models.ForeignKey("models_registry.Version", on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField()
    """Its begin."""
    seconds = models.PositiveIntegerField()
    events = models.PositiveIntegerField()
    bad = models.PositiveIntegerField()
    pushed_at = models.DateTimeField(default=clock.now)
    judged_in = models.ForeignKey("releases.Release", on_delete=models.SET_NULL, null=True, related_name="+")
    """The release that has taken it as evidence."""

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["indicator", "version", "at"], name="pushed_count_once")
        ]

    def __str__(self) -> str:
        return f"{self.indicator.name} {self.bad}/{self.events}"
