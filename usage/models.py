from typing import ClassVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from accounts.querysets import TeamOwned
from accounts.team_rows import TeamRow
from common.reconcile import Singleton
from usage.states import BudgetState, UsageMeasure


class UsageDayRows(TeamOwned["UsageDay"]):
    team_path = "team"


class UsageDay(models.Model):
    """What the clients of one key used of one version of a service in one day (UTC)."""

    day = models.DateField()
    team = models.ForeignKey("accounts.Team", on_delete=models.PROTECT, related_name="+")
    """Of the service."""
    service = models.CharField(max_length=128)
    version = models.CharField(max_length=400)
    key_id = models.PositiveBigIntegerField(default=0)
    """0: requests without a key; GPU hours and their cost, which belong to no request, stand there, too."""
    key = models.CharField(max_length=63, blank=True)
    """Its name, which outlives it."""
    requests = models.PositiveBigIntegerField(default=0)
    errors = models.PositiveBigIntegerField(default=0)
    refused = models.PositiveBigIntegerField(default=0)
    prompt_tokens = models.PositiveBigIntegerField(default=0)
    completion_tokens = models.PositiveBigIntegerField(default=0)
    gpu_seconds = models.FloatField(default=0.0)
    cost = models.FloatField(default=0.0)
    """At the prices of that moment."""

    objects = UsageDayRows.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["day", "team", "service", "version", "key_id"], name="usage_once_a_day"
            )
        ]
        ordering: ClassVar = ["day", "service", "version", "key_id"]

    def __str__(self) -> str:
        return f"{self.service} {self.day}"


class UsageMeter(Singleton):
    """How far usage is counted."""

    minute = models.PositiveBigIntegerField(default=0, editable=False)
    """The last minute (since 1970) whose readings are counted; 0: it has not begun."""
    metered_at = models.DateTimeField(null=True, editable=False)
    """Up to when GPU hours are counted."""

    def __str__(self) -> str:
        return "usage"


class BudgetRows(TeamOwned["Budget"]):
    team_path = "team"


class Budget(TeamRow):
    """The most that a team, or one service of it, is to use in a calendar month. It stops nothing."""

    service = models.CharField(max_length=128, blank=True)
    """Empty: all services of the team."""
    measure = models.CharField(max_length=20, choices=UsageMeasure.choices)
    amount = models.FloatField(validators=[MinValueValidator(0.0)])
    warn_percent = models.PositiveSmallIntegerField(default=80, validators=[MaxValueValidator(100)])
    state = models.CharField(max_length=20, choices=BudgetState.choices, default=BudgetState.WITHIN)
    used = models.FloatField(default=0.0, editable=False)
    """In the present month, as counted last."""

    objects = BudgetRows.as_manager()

    class Meta(TeamRow.Meta):
        pass

    @property
    def measured(self) -> str:
        return str(UsageMeasure(self.measure).label)

    @property
    def used_percent(self) -> str:
        return f"{100 * self.used / self.amount:.0f} %" if self.amount else ""
