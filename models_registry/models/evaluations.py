from typing import ClassVar

from django.db import models

from accounts.querysets import TeamOwned
from common import clock


class EvaluationQuerySet(TeamOwned["Evaluation"]):
    team_path = "version__model__team"


class Evaluation(models.Model):
    """A figure that somebody recorded of a version. Of one dataset and name the newest holds; the others are
    its history.
    """

    version = models.ForeignKey("models_registry.Version", on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=100)
    dataset = models.CharField(max_length=200, blank=True)
    value = models.FloatField(null=True)
    """None: it was taken back."""
    unit = models.CharField(max_length=20, blank=True)
    is_higher_better = models.BooleanField(null=True)
    """None: nobody told."""
    link = models.CharField(max_length=1_000, blank=True)
    recorded_at = models.DateTimeField(default=clock.now)
    recorded_by = models.CharField(max_length=200)
    user = models.ForeignKey("accounts.User", null=True, on_delete=models.SET_NULL, related_name="+")

    objects = EvaluationQuerySet.as_manager()

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["version", "dataset", "name", "-id"], name="evaluation_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.version}"
