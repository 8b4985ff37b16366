from typing import ClassVar

from django.db import models

from accounts.querysets import TeamOwned
from common import clock
from common.revisions import Revised


class AliasQuerySet(TeamOwned["Alias"]):
    team_path = "model__team"


class Alias(Revised):
    """A name that points at one version of a model and can be moved, such as `production`."""

    model = models.ForeignKey("models_registry.Model", on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=63)
    version = models.ForeignKey("models_registry.Version", on_delete=models.PROTECT, related_name="+")
    moved_at = models.DateTimeField(default=clock.now)
    moved_by = models.CharField(max_length=200)
    reason = models.TextField(blank=True)

    objects = AliasQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "aliases"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["model", "name"], name="alias_once"),
        ]

    def __str__(self) -> str:
        return f"{self.model.name}:{self.name}"


class AliasMoveQuerySet(TeamOwned["AliasMove"]):
    team_path = "model__team"


class AliasMove(models.Model):
    """A move of an alias; it outlives the alias. Without `to_version` the alias was deleted."""

    model = models.ForeignKey("models_registry.Model", on_delete=models.PROTECT, related_name="+")
    alias = models.CharField(max_length=63)
    from_version = models.ForeignKey(
        "models_registry.Version", null=True, on_delete=models.PROTECT, related_name="+"
    )
    to_version = models.ForeignKey(
        "models_registry.Version", null=True, on_delete=models.PROTECT, related_name="+"
    )
    at = models.DateTimeField(default=clock.now)
    by = models.CharField(max_length=200)
    user = models.ForeignKey("accounts.User", null=True, on_delete=models.SET_NULL, related_name="+")
    reason = models.TextField(blank=True)
    release_id = models.BigIntegerField(null=True)
    """The release that moved it; a plain id, since releases stand above the registry."""

    objects = AliasMoveQuerySet.as_manager()

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["model", "alias", "-at", "-id"], name="alias_history"),
        ]

    def __str__(self) -> str:
        return f"{self.alias}: {self.from_version} -> {self.to_version}"
