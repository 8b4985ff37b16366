from typing import ClassVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from accounts.querysets import TeamOrShared
from clusters.models import Cluster
from common import clock
from common.revisions import Revised
from freezes.states import FreezeEffect
from freezes.windows import LONGEST, FreezeWindow


class FreezeRows(TeamOrShared["Freeze"]):
    def in_force(self) -> "FreezeRows":
        return self.filter(ended_at=None)


class Freeze(Revised):
    """Times in which releases neither start nor advance: a recurring window, or a stop until it is ended."""

    team = models.ForeignKey("accounts.Team", on_delete=models.CASCADE, null=True, related_name="+")
    """Owner; None: it concerns every team."""
    name = models.CharField(max_length=100)
    effect = models.CharField(max_length=10, choices=FreezeEffect.choices, default=FreezeEffect.DENY)
    service = models.CharField(max_length=50, blank=True)
    """The one service that it concerns; empty: all."""
    stage = models.CharField(max_length=104, blank=True)
    """The stage of environments whose service it concerns: `production`, or that of one graph,
    `chat/production`; empty: all."""
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, null=True, related_name="+")
    """The one cluster whose services it concerns; None: all."""
    starts_at = models.DateTimeField(default=clock.now)
    zone = models.CharField(max_length=64, default="UTC")
    """IANA name of the zone by whose wall clock it begins, recurs and ends."""
    minutes = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(int(LONGEST.total_seconds() // 60))],
    )
    """Length of each time; None: until a person ends it."""
    recurrence = models.CharField(max_length=300, blank=True)
    """Recurrence rule of RFC 5545; empty: once."""
    reason = models.TextField(blank=True)
    created_by = models.CharField(max_length=200, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    changed_at = models.DateTimeField(default=clock.now, editable=False)
    ended_at = models.DateTimeField(null=True, editable=False)
    """When a person removed it; it stays for the record."""
    ended_by = models.CharField(max_length=200, blank=True, editable=False)

    objects = FreezeRows.as_manager()

    class Meta:
        ordering: ClassVar = ["pk"]

    def __str__(self) -> str:
        return self.name

    @property
    def seconds(self) -> int | None:
        """Its length; None: a stop, which ends when somebody ends it."""
        return self.minutes * 60 if self.minutes is not None else None

    @property
    def is_stop(self) -> bool:
        return self.minutes is None

    @property
    def window(self) -> FreezeWindow:
        return FreezeWindow(
            self.effect == FreezeEffect.DENY,
            self.starts_at,
            self.zone,
            self.minutes,
            self.recurrence,
            self.team_id,
        )
