from typing import ClassVar

from django.db import models

from common.reconcile import Singleton


class NodeSignals(models.Model):
    """The last look at a machine as its cluster shows it; each begin and each end is told once."""

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
    """The row whose reconciler reads machines as they are seen."""

    class Meta(Singleton.Meta):
        pass

    def __str__(self) -> str:
        return "reader of machines"


class EventReader(Singleton):
    """The row whose reconciler reads the events of machines."""

    class Meta(Singleton.Meta):
        pass

    def __str__(self) -> str:
        return "reader of events"
