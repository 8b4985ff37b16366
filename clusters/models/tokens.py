"""Tokens that speak for a part of a cluster and for no other, and the part that each speaks for."""

from typing import ClassVar

from django.db import models

from common import clock


class BoundToken(models.Model):
    token = models.OneToOneField("accounts.ApiToken", on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        abstract = True
        ordering: ClassVar = ["pk"]


class AgentToken(BoundToken):
    """Whoever reports a machine."""

    cluster = models.ForeignKey("clusters.Cluster", on_delete=models.CASCADE, related_name="+")
    node_uid = models.CharField(max_length=253)
    """As in `Node`, whose row may not be there yet."""

    class Meta(BoundToken.Meta):
        # Whether its machine has an agent is asked for every worker, each second.
        indexes: ClassVar = [models.Index(fields=["cluster", "node_uid"], name="agent_token_by_machine")]

    def __str__(self) -> str:
        return f"{self.cluster.name}/{self.node_uid}"


class FilesToken(BoundToken):
    """Token by which the machines of one cluster fetch the files of versions that run there."""

    cluster = models.ForeignKey("clusters.Cluster", on_delete=models.CASCADE, related_name="+")

    def __str__(self) -> str:
        return f"files of {self.cluster.name}"


class ReportToken(BoundToken):
    """Token by which the workers of one deployment report themselves."""

    deployment = models.ForeignKey("clusters.Deployment", on_delete=models.CASCADE, related_name="+")

    def __str__(self) -> str:
        return f"reports of {self.deployment.name}"


class RelayToken(BoundToken):
    """Token by which the relay of one cluster reports its workers."""

    cluster = models.ForeignKey("clusters.Cluster", on_delete=models.CASCADE, related_name="+")

    def __str__(self) -> str:
        return f"relay of {self.cluster.name}"
