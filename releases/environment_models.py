"""Environments: dev, staging, production as an ordered graph of services."""

from typing import ClassVar

from django.db import models

from accounts.querysets import TeamOwned
from accounts.team_rows import TeamRow


class EnvironmentGraphRows(TeamOwned["EnvironmentGraph"]):
    pass


class EnvironmentGraph(TeamRow):
    """Services of one model in the order in which versions pass them."""

    objects = EnvironmentGraphRows.as_manager()

    class Meta(TeamRow.Meta):
        pass


class EnvironmentStage(models.Model):
    """A service's place among the others: versions come from those that are named in `after`."""

    graph = models.ForeignKey(EnvironmentGraph, on_delete=models.CASCADE, related_name="stages")
    position = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=40)
    service = models.ForeignKey("releases.Service", on_delete=models.CASCADE, related_name="+")
    after = models.JSONField(default=list)
    """Names of stages before it; empty: versions start here."""
    is_automatic = models.BooleanField(default=False)
    """Whether what is promoted in a stage before it is released here at once, by the service's plan."""
    refusal = models.TextField(blank=True)
    """Why the last automatic promotion did not start; empty: it did."""

    class Meta:
        ordering: ClassVar = ["position"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["graph", "name"], name="stage_once_in_graph"),
            models.UniqueConstraint(fields=["graph", "service"], name="service_once_in_graph"),
        ]

    def __str__(self) -> str:
        return f"{self.graph}/{self.name}"
