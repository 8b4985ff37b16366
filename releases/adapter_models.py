from typing import ClassVar

from django.core.validators import RegexValidator
from django.db import models

from accounts.querysets import TeamOwned
from common import clock
from serving.protocol import NAME

adapter_name = RegexValidator(
    rf"^{NAME.pattern}$",
    "Use letters, digits, full stops, hyphens and underscores, 128 at most: requests name it as their model.",
)


class ServiceAdapterRows(TeamOwned["ServiceAdapter"]):
    team_path = "service__team"


class ServiceAdapter(models.Model):
    """A LoRA adapter that the workers of a service have loaded: a version of the registry under a name."""

    service = models.ForeignKey("releases.Service", on_delete=models.CASCADE, related_name="adapters")
    name = models.CharField(max_length=128, validators=[adapter_name])
    """What requests give as their `model`."""
    version = models.ForeignKey("models_registry.Version", on_delete=models.PROTECT, related_name="+")
    version_label = models.CharField(max_length=200)
    loaded_by = models.CharField(max_length=200)
    loaded_at = models.DateTimeField(default=clock.now)

    objects = ServiceAdapterRows.as_manager()

    class Meta:
        ordering: ClassVar = ["service", "name"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["service", "name"], name="adapter_name_in_service")
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.service}"
