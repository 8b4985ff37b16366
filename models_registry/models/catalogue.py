from typing import ClassVar, Self

from django.db import models
from django.db.models import Q, Value
from django.db.models.functions import Concat, Lower

from accounts.querysets import TeamOwned
from common import clock
from common.revisions import Revised

SPACE = Value(" ")


class ModelQuerySet(TeamOwned["Model"]):
    team_path = "team"

    def live(self) -> Self:
        return self.filter(deleted_at=None)


class Model(Revised):
    """A model that a team owns: a name, what it is for, and its versions.

    Names are unique over all teams, since traffic and history name a version `model:version`. A deleted
    model keeps its row; its name may be used again.
    """

    team = models.ForeignKey("accounts.Team", on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=95)
    task = models.CharField(max_length=100, blank=True)
    """What it is for, in the words of the hub: `text-generation`, `feature-extraction` ..."""
    description = models.TextField(max_length=10_000, blank=True)
    protected_aliases = models.JSONField(default=list, blank=True)
    """Names that only the right `aliases.protected` creates, moves and deletes, such as `production`."""
    latest = models.ForeignKey(
        "models_registry.Version",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        editable=False,
    )
    """The newest ready version: what lists show. Kept by `transitions`, and with it what they ask for
    below.
    """
    architecture = models.CharField(max_length=200, blank=True, editable=False)
    """Of the newest ready version, as are `weights` and `parameters`: searched without a look at it."""
    weights = models.CharField(max_length=20, blank=True, editable=False)
    """The format of its weights, `facts.format`."""
    parameters = models.BigIntegerField(null=True, blank=True, editable=False)
    ready_versions = models.PositiveIntegerField(default=0, editable=False)
    ready_bytes = models.BigIntegerField(default=0, editable=False)
    """Of all ready versions, each counted in full."""
    newest_at = models.DateTimeField(null=True, blank=True, editable=False)
    """When the newest ready version became ready."""
    words = models.GeneratedField(
        expression=Lower(
            Concat(
                *("name", SPACE, "task", SPACE, "description", SPACE, "architecture"),
                output_field=models.TextField(),
            )
        ),
        output_field=models.TextField(),
        db_persist=True,
    )
    """What a search for words looks at in the row, in lower case."""
    created_at = models.DateTimeField(default=clock.now, editable=False)
    created_by = models.ForeignKey(
        "accounts.User", null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_by_name = models.CharField(max_length=200, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = ModelQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["name"], condition=Q(deleted_at=None), name="model_name_once"),
        ]
        indexes: ClassVar = [models.Index(fields=["team", "name"], name="model_of_team")]

    def __str__(self) -> str:
        return self.name
