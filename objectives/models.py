from datetime import timedelta
from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from accounts.querysets import TeamOwned
from accounts.team_rows import TeamRow
from common import clock
from common.reconcile import Singleton
from common.revisions import Revised
from objectives.budget import ErrorBudget, GoodAndBad, budget_of


class ServiceObjectiveRows(TeamOwned["ServiceObjective"]):
    pass


class ServiceObjective(TeamRow, Revised):
    """A service level objective: the share of requests that must be answered well within a window."""

    service = models.ForeignKey("releases.Service", on_delete=models.CASCADE, related_name="+")
    target_percent = models.FloatField(validators=[MinValueValidator(50), MaxValueValidator(99.999)])
    latency_ms = models.FloatField(null=True, blank=True)
    """Answers that take longer are bad; None: answers 500 to 599, or cut off, are."""
    window_days = models.PositiveSmallIntegerField(
        default=30, validators=[MinValueValidator(1), MaxValueValidator(30)]
    )
    counted_until = models.DateTimeField(null=True, editable=False)
    """Time of the last reading of the gateway's counts that is in it; None: it is to be counted anew."""
    minutes = models.JSONField(default=list, editable=False)
    """`[minute, requests, bad]` of the last six hours."""
    hours = models.JSONField(default=list, editable=False)
    """`[hour, requests, bad]` of the window."""

    objects = ServiceObjectiveRows.as_manager()

    class Meta(TeamRow.Meta):
        pass

    @property
    def window(self) -> timedelta:
        return timedelta(days=self.window_days)

    @property
    def minute_counts(self) -> list[GoodAndBad]:
        return _counts(self.minutes)

    @property
    def hour_counts(self) -> list[GoodAndBad]:
        return _counts(self.hours)

    @property
    def budget(self) -> ErrorBudget:
        return budget_of(
            self.minute_counts,
            self.hour_counts,
            target_percent=self.target_percent,
            window=self.window,
            now=clock.now(),
        )


class ObjectiveCount(Singleton):
    """Counts good and bad requests of every objective, minute by minute."""

    class Meta(Singleton.Meta):
        pass

    def __str__(self) -> str:
        return "count of service level objectives"


def _counts(kept: list[Any]) -> list[GoodAndBad]:
    return [GoodAndBad(*one) for one in kept]
