from typing import ClassVar, Self

from django.db import models
from django.db.models import Q

from accounts.querysets import TeamOwned
from common import clock
from common.revisions import Revised
from trust.states import SignatureDemand


class TrustedKeyQuerySet(TeamOwned["TrustedKey"]):
    def in_force(self) -> Self:
        return self.filter(removed_at=None)


class TrustedKey(Revised):
    """A public key whose signatures a team takes for good. One that was removed keeps its row."""

    team = models.ForeignKey("accounts.Team", on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=63)
    pem = models.TextField()
    fingerprint = models.CharField(max_length=64)
    """See `signing.keys.PublicKey.fingerprint`."""
    reason = models.TextField()
    added_at = models.DateTimeField(default=clock.now, editable=False)
    added_by = models.CharField(max_length=200, editable=False)
    removed_at = models.DateTimeField(null=True, editable=False)
    removed_by = models.CharField(max_length=200, blank=True, editable=False)

    objects = TrustedKeyQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["team", "fingerprint"], condition=Q(removed_at=None), name="trusted_key_once"
            ),
            models.UniqueConstraint(
                fields=["team", "name"], condition=Q(removed_at=None), name="trusted_key_name_once"
            ),
        ]

    def __str__(self) -> str:
        return f"key {self.name} of {self.team.name}"

    @property
    def is_in_force(self) -> bool:
        return self.removed_at is None


class SignaturePolicyQuerySet(TeamOwned["SignaturePolicy"]):
    pass


class SignaturePolicy(Revised):
    """A team's demands on signatures of served versions; a team without a row demands nothing."""

    team = models.OneToOneField("accounts.Team", on_delete=models.CASCADE, related_name="+")
    demand = models.CharField(
        max_length=10, choices=SignatureDemand.choices, default=SignatureDemand.OFF, editable=False
    )
    reason = models.TextField(blank=True)
    changed_at = models.DateTimeField(default=clock.now, editable=False)
    changed_by = models.CharField(max_length=200, editable=False)

    objects = SignaturePolicyQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(demand__in=SignatureDemand.values), name="signature_demand_known"
            )
        ]

    def __str__(self) -> str:
        return f"signatures of {self.team.name}"
