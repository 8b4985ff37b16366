from typing import ClassVar

from django.db import models
from django.db.models import Q

from accounts.querysets import TeamOwned
from common import clock
from common.reconcile import Reconciled
from common.revisions import Revised


class RetentionRuleQuerySet(TeamOwned["RetentionRule"]):
    team_path = "model__team"


class RetentionRule(Revised, Reconciled):
    """The rule that says which ready versions of a model stay; see `retention.judged`.

    It deletes nothing until somebody has seen its preview: `asked`, or `is_daily`.
    """

    model = models.OneToOneField("models_registry.Model", on_delete=models.PROTECT, related_name="+")
    keep_last = models.PositiveIntegerField()
    keep_days = models.PositiveIntegerField(default=0)
    changed_at = models.DateTimeField(default=clock.now, editable=False)
    changed_by_name = models.CharField(max_length=200, editable=False)

    is_daily = models.BooleanField(default=False, editable=False)
    due_at = models.DateTimeField(null=True, blank=True, editable=False)
    """When the schedule acts next."""
    asked = models.JSONField(null=True, blank=True, editable=False)
    """`{"versions": [ids], "by", "reason"}`: what somebody saw and wants to go, now. None: nothing."""
    deleted_versions = models.PositiveIntegerField(default=0, editable=False)
    """By the run that is under way."""
    deleted_bytes = models.BigIntegerField(default=0, editable=False)
    last_run_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_deleted_versions = models.PositiveIntegerField(default=0, editable=False)
    last_deleted_bytes = models.BigIntegerField(default=0, editable=False)

    objects = RetentionRuleQuerySet.as_manager()

    class Meta(Reconciled.Meta):
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(keep_last__gte=1), name="retention_keeps_one"),
        ]

    def __str__(self) -> str:
        return f"retention rule of {self.model.name}"
