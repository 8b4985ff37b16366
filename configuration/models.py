from typing import ClassVar

from django.db import models

from accounts.querysets import TeamOwned
from common import clock


class AppliedDocuments(TeamOwned["AppliedDocument"]):
    pass


class AppliedDocument(models.Model):
    """A document of a team's files as it was applied last, so that later changes by people can be told."""

    team = models.ForeignKey("accounts.Team", on_delete=models.CASCADE, related_name="+")
    file_set = models.CharField(max_length=63)
    """Name of the directory of files that manages the object; no other may."""
    kind = models.CharField(max_length=63)
    owner = models.CharField(max_length=63, blank=True)
    """Team of the object, where its kind has one; empty: none, or all teams."""
    name = models.CharField(max_length=100)
    document = models.JSONField()
    """Fields as the file has them."""
    observed = models.JSONField()
    """The same fields as Slipway answered them right after."""
    applied_by = models.CharField(max_length=200, editable=False)
    applied_at = models.DateTimeField(default=clock.now, editable=False)

    objects = AppliedDocuments.as_manager()

    class Meta:
        ordering: ClassVar = ["file_set", "kind", "owner", "name"]
        constraints: ClassVar = [
            models.UniqueConstraint("kind", "owner", "name", name="configuration_one_set_per_object")
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
