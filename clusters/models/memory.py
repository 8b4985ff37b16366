from typing import ClassVar

from django.db import models

from common.reconcile import Singleton


class FleetMinute(models.Model):
    """Figures of the whole fleet in one minute, until its hour is put into days."""

    minute = models.PositiveBigIntegerField(unique=True)
    """Whole minutes since 1970."""
    packed = models.BinaryField()
    """As `clusters.history.packed_minute` writes it."""

    def __str__(self) -> str:
        return str(self.minute)


class FleetDay(models.Model):
    """Figures of one machine, worker, group, cluster, deployment or GPU in one day, a column each.

    Columns are written by `clusters.history.with_values`; null: nothing is known of that day.
    """

    subject = models.CharField(max_length=200)
    day = models.PositiveIntegerField()
    """Whole days since 1970."""
    busy = models.BinaryField(null=True)
    memory = models.BinaryField(null=True)
    mark = models.BinaryField(null=True)
    in_flight = models.BinaryField(null=True)
    queue = models.BinaryField(null=True)
    slots = models.BinaryField(null=True)
    workers = models.BinaryField(null=True)
    gpu_memory = models.BinaryField(null=True)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["subject", "day"], name="fleet_day_once")]
        indexes: ClassVar = [models.Index(fields=["day"], name="fleet_day_by_age")]

    def __str__(self) -> str:
        return f"{self.subject} {self.day}"


class FleetMemory(Singleton):
    """Keeps what the fleet did, minute by minute, whether or not anybody looks."""

    kept_minute = models.PositiveBigIntegerField(default=0, editable=False)
    """The last one that is kept."""

    class Meta(Singleton.Meta):
        pass

    def __str__(self) -> str:
        return "memory of the fleet"
