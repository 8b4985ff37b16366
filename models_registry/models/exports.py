from typing import ClassVar, Self
from uuid import uuid4

from django.db import models
from django.db.models import Q
from django.utils import timezone

from accounts.querysets import TeamOwned
from common.reconcile import Reconciled
from models_registry.models.authored import Authored
from models_registry.models.launched import Transfer
from models_registry.states import OPEN_EXPORTS, ExportKind, ExportState


class Exports(TeamOwned["Export"]):
    team_path = "version__model__team"

    def open(self) -> Self:
        return self.filter(state__in=OPEN_EXPORTS)


class Export(Authored, Transfer, Reconciled):
    """A version on its way to a repository on a hub; as far as it came, and the commit that holds it."""

    INTAKE = "export-"
    MOVING = ExportState.SENDING

    version = models.ForeignKey("models_registry.Version", on_delete=models.PROTECT, related_name="+")
    kind = models.CharField(max_length=12, choices=ExportKind.choices, default=ExportKind.HUGGINGFACE)
    endpoint = models.CharField(max_length=200)
    """Address of the hub or the other Slipway, without a slash at its end."""
    repo_id = models.CharField(max_length=200)
    """`org/name`, or the model's name on the other Slipway."""
    branch = models.CharField(max_length=200, blank=True, default="main")
    """Empty: of a model on another Slipway."""
    sealed_token = models.TextField(blank=True, editable=False)
    """See `common.sealed`; forgotten once the export is done or cancelled."""
    creates = models.BooleanField(default=False)
    """A repository or branch that is missing is made."""
    is_private = models.BooleanField(default=True)
    """Of a repository that is made."""
    allow_patterns = models.JSONField(default=list, blank=True)
    ignore_patterns = models.JSONField(default=list, blank=True)
    why = models.TextField()
    """Why it is published, in its author's words."""
    key = models.UUIDField(default=uuid4, unique=True, editable=False)
    """In the message of its commit, by which that is known again."""
    state = models.CharField(
        max_length=12, choices=ExportState.choices, default=ExportState.SENDING, editable=False
    )
    reason = models.TextField(blank=True, editable=False)
    """Why it is where it is, as a sentence."""
    commit = models.CharField(max_length=95, blank=True, editable=False)
    """That holds the version; on another Slipway the version's name there."""
    began_at = models.DateTimeField(default=timezone.now, editable=False)
    """When it was begun, or begun again."""
    ended_at = models.DateTimeField(null=True, blank=True, editable=False)

    is_held = models.BooleanField(default=True, editable=False)
    """The store may hold an intake for it."""

    objects = Exports.as_manager()

    class Meta(Reconciled.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["endpoint", "repo_id", "branch"],
                condition=Q(state__in=sorted(OPEN_EXPORTS)),
                name="export_one_open",
            ),
            models.CheckConstraint(condition=Q(state__in=ExportState.values), name="export_state_known"),
        ]
        indexes: ClassVar = [
            *Reconciled.Meta.indexes,
            models.Index(fields=["version", "-id"], name="export_newest"),
        ]

    def __str__(self) -> str:
        return f"export {self.pk} of {self.version}"

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_EXPORTS

    @property
    def target(self) -> str:
        return f"{self.repo_id}@{self.branch}" if self.branch else self.repo_id

    @property
    def is_to_slipway(self) -> bool:
        return self.kind == ExportKind.SLIPWAY

    @property
    def address(self) -> str:
        """Of the page of its commit or version there, or of the repository or model."""
        if self.is_to_slipway:
            return f"{self.endpoint}/models/{self.repo_id}/" + (f"{self.commit}/" if self.commit else "")
        return f"{self.endpoint}/{self.repo_id}" + (f"/commit/{self.commit}" if self.commit else "")
