"""Approvals of releases, and who gives them in the place of people who are away."""

from datetime import datetime
from typing import Any, ClassVar

from django.db import models
from django.db.models import F, Q

from accounts.querysets import TeamOwned
from common import clock
from releases.states import ApprovalDecision


class Approval(models.Model):
    """A person's word on one step of one release, bound to the plan that the release follows."""

    release = models.ForeignKey("releases.Release", on_delete=models.CASCADE, related_name="approvals")
    step_index = models.PositiveSmallIntegerField()
    plan_hash = models.CharField(max_length=64)
    decision = models.CharField(max_length=10, choices=ApprovalDecision.choices)
    by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    requester = models.ForeignKey("accounts.User", on_delete=models.PROTECT, null=True, related_name="+")
    """Who asked for the release; copied, so that the database itself can keep the two apart."""
    separate_requester = models.BooleanField()
    on_behalf_of = models.ForeignKey(
        "accounts.User",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        db_index=False,
        related_name="+",
    )
    """The person who was away, by whose delegation it was given."""
    policy_hash = models.CharField(max_length=64, blank=True, db_default="")
    """Digest of the release policy at that time: under another one it is void; empty: not known."""
    reason = models.TextField()
    at = models.DateTimeField(default=clock.now)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["release", "step_index", "by", "policy_hash"], name="one_word_per_policy"
            ),
            models.CheckConstraint(
                condition=Q(separate_requester=False)
                | Q(decision=ApprovalDecision.REJECT)
                | ~Q(by=F("requester")),
                name="approver_is_not_requester",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.by} {self.decision}"

    @property
    def who(self) -> str:
        """The person, and in whose place."""
        return f"{self.by} ({self.on_behalf_of})" if self.on_behalf_of_id else str(self.by)

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.pk is not None:
            raise TypeError("An approval is never changed.")
        super().save(*args, **kwargs)


class DelegationRows(TeamOwned["ApprovalDelegation"]):
    def in_force(self, now: datetime) -> "DelegationRows":
        return self.filter(Q(ends_at=None) | Q(ends_at__gt=now), starts_at__lte=now, ended_at=None)


class ApprovalDelegation(models.Model):
    """A person approves in the place of another one who is away."""

    team = models.ForeignKey("accounts.Team", on_delete=models.CASCADE, related_name="+")
    person = models.ForeignKey("accounts.User", on_delete=models.CASCADE, related_name="+")
    """Who is away."""
    delegate = models.ForeignKey("accounts.User", on_delete=models.CASCADE, related_name="+")
    starts_at = models.DateTimeField(default=clock.now)
    ends_at = models.DateTimeField(null=True, blank=True)
    """None: until somebody ends it."""
    ended_at = models.DateTimeField(null=True, editable=False)
    reason = models.TextField(blank=True)
    created_by = models.CharField(max_length=200, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    objects = DelegationRows.as_manager()

    class Meta:
        ordering: ClassVar = ["-pk"]

    def __str__(self) -> str:
        return f"{self.delegate} for {self.person}"
