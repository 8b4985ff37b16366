"""A long-lived thing of the smallest kind that has every kind of effect; for testing the kernel alone."""

from django.db import models

from common.jobs.rows import RunsJob
from common.reconcile import Reconciled, Singleton


class Parcel(Reconciled):
    state = models.CharField(max_length=20, default="new")
    wants_return = models.BooleanField(default=False)

    class Meta(Reconciled.Meta):
        app_label = "toys"

    def __str__(self) -> str:
        return f"parcel {self.pk}"


class ParcelHistory(models.Model):
    parcel_id = models.BigIntegerField()
    state = models.CharField(max_length=20)

    class Meta:
        app_label = "toys"

    def __str__(self) -> str:
        return self.state


class Beat(Singleton):
    seen_at = models.DateTimeField(null=True)

    class Meta(Singleton.Meta):
        app_label = "toys"

    def __str__(self) -> str:
        return "beat"


class Errand(RunsJob, Reconciled):
    """Something that a job does, and that can be called off and begun again."""

    state = models.CharField(max_length=20, default="running")
    attempt = models.PositiveIntegerField(default=1)
    answer = models.CharField(max_length=200, default="")

    class Meta(Reconciled.Meta):
        app_label = "toys"

    def __str__(self) -> str:
        return f"errand {self.pk}"
