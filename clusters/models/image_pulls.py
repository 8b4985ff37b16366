from typing import ClassVar

from django.db import models

from clusters.models.clusters import Cluster


class ImagePull(models.Model):
    """A machine pulled an image for a pod, as its kubelet told it."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    machine = models.CharField(max_length=253)
    pod_uid = models.CharField(max_length=64)
    reference = models.CharField(max_length=600)
    digest = models.CharField(max_length=80)
    seconds = models.FloatField()
    waited_seconds = models.FloatField()
    """With the time that the kubelet pulled other images first."""
    size_bytes = models.PositiveBigIntegerField(default=0)
    """0: not said."""
    at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "pod_uid", "reference"], name="image_pull_once")
        ]
        indexes: ClassVar = [
            models.Index(fields=["digest", "-at"], name="pull_of_image"),
            models.Index(fields=["cluster", "machine", "-at"], name="pull_of_machine"),
            models.Index(fields=["at"], name="pull_age"),
        ]
        ordering: ClassVar = ["-at", "-pk"]

    def __str__(self) -> str:
        return f"{self.reference} on {self.machine}"
