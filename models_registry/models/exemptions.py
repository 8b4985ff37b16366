from datetime import datetime
from typing import ClassVar, Self

from django.db import models
from django.utils import timezone

from accounts.querysets import TeamOwned
from common import clock
from common.revisions import Revised


class CodeExemptionQuerySet(TeamOwned["CodeExemption"]):
    def in_force(self, at: datetime) -> Self:
        return self.filter(ended_at=None, until__gt=at)


class CodeExemption(Revised):
    """Versions of a team that carry code may be served for a while: who said so, why and until when.

    It ends by itself; one that has ended keeps its row.
    """

    team = models.ForeignKey("accounts.Team", on_delete=models.CASCADE, related_name="+")
    model = models.ForeignKey(
        "models_registry.Model", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    """None: every model of the team."""
    covers_runnable = models.BooleanField(default=False)
    """Formats that run code when they are loaded (`trust.formats.recognised`) too: they may even enter."""
    reason = models.TextField()
    given_at = models.DateTimeField(default=clock.now, editable=False)
    given_by = models.CharField(max_length=200, editable=False)
    user = models.ForeignKey("accounts.User", null=True, on_delete=models.SET_NULL, related_name="+")
    until = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, editable=False)
    """When somebody ended it before its time."""
    ended_by = models.CharField(max_length=200, blank=True, editable=False)

    objects = CodeExemptionQuerySet.as_manager()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["team", "-given_at"], name="code_exemption_of_team")]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(until__gt=models.F("given_at")), name="code_exemption_ends"
            )
        ]

    def __str__(self) -> str:
        return f"code of {self.model.name if self.model else f'every model of {self.team.name}'}"

    @property
    def is_in_force(self) -> bool:
        return self.ended_at is None and self.until > timezone.now()
