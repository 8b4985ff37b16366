from typing import ClassVar

from django.db import models

from common.reconcile import Singleton


class NodeSignals(models.Model):
    """What was last read of a machine that its cluster shows: what began is told once, and so is its end."""

    node = models.OneToOneField("clusters.Node", on_delete=models.CASCADE, related_name="+")
    seen_as = models.CharField(max_length=32, blank=True)
    """The digest of the look that was read."""
    conditions = models.JSONField(default=list)
    """Faults of which its conditions told."""
    plugin_is_bad = models.BooleanField(default=False)
    """Fewer GPUs were allocatable than it has."""

    class Meta:
        ordering: ClassVar = ["pk"]

    def __str__(self) -> str:
        return f"signals of {self.node_id}"


class SignalReader(Singleton):
    """By which machines are read as they are seen."""

    class Meta(Singleton.Meta):
        pass

    def __str__(self) -> str:
        return "reader of machines"


class EventReader(Singleton):
    """By which the events of machines are read."""

    class Meta(Singleton.Meta):
        pass

    def __str__(self) -> str:
        return "reader of events"
