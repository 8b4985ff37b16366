"""Repositories that versions come from, their syncs, and exports of versions."""

from abc import abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, ClassVar, Self, TypeVar
from uuid import uuid4

from django.db import models
from django.db.models import Q

from accounts.authored import Authored
from accounts.querysets import TeamOwned
from common import clock
from common.reconcile import Reconciled
from common.revisions import Revised
from hubs.states import (
    EXPORT_STATES,
    OPEN,
    SYNC_STATES,
    UNDER_WAY,
    ExportKind,
    HubKind,
    SyncFailureCause,
    TransferState,
)
from models_registry.models import Model
from models_registry.models.transfers import Transfer

Row = TypeVar("Row", bound="HubTransfer", covariant=True)


def _in(choices: Iterable[tuple[str, Any]], among: Collection[str] | None = None) -> Q:
    return Q(state__in=sorted(state for state, _ in choices if among is None or state in among))


class HubTransferQuerySet(TeamOwned[Row]):
    shown_with: ClassVar[tuple[str, ...]]
    """What doors show of each beside itself."""

    def open(self) -> Self:
        return self.filter(state__in=OPEN)


class HubTransfer(Authored, Reconciled):
    """A sync or an export: asked for by somebody, where it stands and why, and the commit it is about."""

    state: "models.CharField[str, str]"
    reason = models.TextField(blank=True, editable=False)
    """Why it is where it is, as a sentence."""
    commit = models.CharField(max_length=95, blank=True, editable=False)
    """Of the repository; of an export to another Slipway the version's name there."""
    began_at = models.DateTimeField(default=clock.now, editable=False)
    """When it was begun, or begun again."""
    ended_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta(Reconciled.Meta):
        abstract = True

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    @property
    def is_under_way(self) -> bool:
        """Pages look again every second."""
        return self.state in UNDER_WAY and self.stuck_at is None

    @property
    @abstractmethod
    def model(self) -> Model: ...

    @property
    @abstractmethod
    def files(self) -> Transfer | None:
        """The counter of its files and bytes; None until the files are known."""

    @property
    def says(self) -> str:
        """Why it is where it is; while files move, what they wait for."""
        return self.reason


class ExportQuerySet(HubTransferQuerySet["Export"]):
    team_path = "version__model__team"
    shown_with = (team_path,)


class Export(HubTransfer, Transfer):
    """A version on its way to a repository on a hub; as far as it came, and the commit that holds it."""

    STAGING = "export-"
    MOVING = TransferState.SENDING

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
        max_length=12, choices=EXPORT_STATES, default=TransferState.SENDING, editable=False
    )
    is_held = models.BooleanField(default=True, editable=False)
    """The store may hold a staging area for it."""

    objects = ExportQuerySet.as_manager()

    class Meta(HubTransfer.Meta):
        abstract = False
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["endpoint", "repo_id", "branch"],
                condition=_in(EXPORT_STATES, OPEN),
                name="export_one_open",
            ),
            models.CheckConstraint(condition=_in(EXPORT_STATES), name="export_state_known"),
        ]
        indexes: ClassVar = [
            *Reconciled.Meta.indexes,
            models.Index(fields=["version", "-id"], name="export_newest"),
        ]

    def __str__(self) -> str:
        return f"export {self.pk} of {self.version}"

    @property
    def model(self) -> Model:
        return self.version.model

    @property
    def files(self) -> Transfer:
        return self

    @property
    def target(self) -> str:
        return f"{self.repo_id}@{self.branch}" if self.branch else self.repo_id

    @property
    def is_to_slipway(self) -> bool:
        return self.kind == ExportKind.SLIPWAY

    @property
    def address(self) -> str:
        """The page of its commit or version at the destination, or of the repository or model."""
        if self.is_to_slipway:
            return f"{self.endpoint}/models/{self.repo_id}/" + (f"{self.commit}/" if self.commit else "")
        return f"{self.endpoint}/{self.repo_id}" + (f"/commit/{self.commit}" if self.commit else "")


FORGOTTEN: dict[str, Any] = {
    "sealed_token": "",
    "notice_hash": "",
    "every_seconds": None,
    "due_at": None,
    "is_noticed": False,
}
"""Columns of a source that is deleted: no secret outlives it, and nothing is due."""


class HubSourceQuerySet(TeamOwned["HubSource"]):
    team_path = "model__team"

    def live(self) -> Self:
        return self.filter(deleted_at=None)


class HubSource(Revised, Reconciled):
    """A repository on a hub that versions of a model come from, and how often it is looked at.

    A deleted one keeps its row, since syncs and versions tell of it.
    """

    model = models.ForeignKey("models_registry.Model", on_delete=models.PROTECT, related_name="+")
    endpoint = models.CharField(max_length=200)
    """Address of the hub, such as `https://huggingface.co`, without a slash at its end."""
    kind = models.CharField(max_length=12, choices=HubKind.choices, default=HubKind.HUGGINGFACE)
    repo_id = models.CharField(max_length=200)
    ref = models.CharField(max_length=200, default="main")
    """A branch or tag that is followed, or a commit."""
    sealed_token = models.TextField(blank=True, editable=False)
    """See `common.sealed`; empty: none."""
    allow_patterns = models.JSONField(default=list, blank=True)
    ignore_patterns = models.JSONField(default=list, blank=True)
    every_seconds = models.PositiveIntegerField(null=True, blank=True)
    """None: it is synced when somebody asks for it."""
    due_at = models.DateTimeField(null=True, blank=True, editable=False)
    """When the next sync begins, by the schedule or since the hub told of a change."""
    is_noticed = models.BooleanField(default=False, editable=False)
    """That it did: a notice of the hub is why the next sync is due."""
    notice_hash = models.CharField(max_length=64, blank=True, editable=False)
    """Of the secret that the hub's notices carry; empty: none are taken."""
    release_to = models.CharField(max_length=50, blank=True)
    """Service that gets a new version once it is ready; empty: none does."""
    release_plan = models.CharField(max_length=60, blank=True)
    """Empty: the plan of the service."""
    released_by = models.ForeignKey(
        "accounts.User", null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    """Whoever asked for these releases: they are begun in that name, with what rights it has then."""
    created_at = models.DateTimeField(default=clock.now, editable=False)
    created_by_name = models.CharField(max_length=200, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = HubSourceQuerySet.as_manager()

    class Meta(Reconciled.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["model", "endpoint", "repo_id", "ref"],
                condition=Q(deleted_at=None),
                name="hub_source_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.repo_id}@{self.ref}"

    @property
    def address(self) -> str:
        """The repository's page."""
        return f"{self.endpoint}/{'models/' if self.kind == HubKind.MODELSCOPE else ''}{self.repo_id}"

    @property
    def has_token(self) -> bool:
        return bool(self.sealed_token)

    @property
    def takes_notices(self) -> bool:
        return bool(self.notice_hash)


class HubSyncQuerySet(HubTransferQuerySet["HubSync"]):
    team_path = "source__model__team"
    shown_with = (team_path, "version__model")


class HubSync(HubTransfer):
    """A sync of a source: the commit that it found, and its outcome. Its files are its version's."""

    source = models.ForeignKey(HubSource, on_delete=models.PROTECT, related_name="+")
    state = models.CharField(
        max_length=12, choices=SYNC_STATES, default=TransferState.RESOLVING, editable=False
    )
    cause = models.CharField(max_length=20, choices=SyncFailureCause.choices, blank=True, editable=False)
    """Of a failure or an interruption, where it is one of these."""
    version = models.ForeignKey(
        "models_registry.Version", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    is_scheduled = models.BooleanField(default=False, editable=False)
    """No person asked for it: the author is the schedule, or a notice of the hub."""

    objects = HubSyncQuerySet.as_manager()

    class Meta(HubTransfer.Meta):
        abstract = False
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["source"],
                condition=_in(SYNC_STATES, OPEN),
                name="hub_sync_one_open",
            ),
            models.CheckConstraint(condition=_in(SYNC_STATES), name="hub_sync_state_known"),
        ]
        indexes: ClassVar = [
            *Reconciled.Meta.indexes,
            models.Index(fields=["source", "-id"], name="hub_sync_newest"),
        ]

    def __str__(self) -> str:
        return f"sync {self.pk} of {self.source}"

    @property
    def model(self) -> Model:
        return self.source.model

    @property
    def files(self) -> Transfer | None:
        return self.version

    @property
    def says(self) -> str:
        if self.state == TransferState.FETCHING and self.version:
            return self.version.reason
        return self.reason
