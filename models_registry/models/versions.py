from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext as _

from accounts.authored import Authored
from accounts.querysets import TeamOwned
from common import clock
from common.reconcile import Reconciled
from models_registry.errors import VersionFrozen
from models_registry.models.transfers import Transfer
from models_registry.states import FROZEN, VersionState

FROZEN_FIELDS = frozenset(
    {
        "model_id", "number", "name", "source", "message", "author_id", "author_name", "created_at",
        "ready_at", "digest", "size_bytes", "file_count", "architecture", "parameters", "context_length",
        "dtype", "quantization", "config", "facts", "scan", "lineage", "parent_id",
    }
)  # fmt: skip
_FROZEN_COLUMNS = FROZEN_FIELDS | {"model", "author", "parent"}


class VersionQuerySet(TeamOwned["Version"]):
    team_path = "model__team"

    def live(self) -> Self:
        return self.exclude(state=VersionState.DELETED)

    def ready(self) -> Self:
        return self.filter(state=VersionState.READY)

    def update(self, **columns: Any) -> int:
        if _FROZEN_COLUMNS & columns.keys() and self.filter(state__in=FROZEN).exists():
            raise VersionFrozen(_("A ready version never changes. Import another one."))
        return super().update(**columns)

    def fill_in_facts(self, facts: Mapping[str, Any]) -> int:
        """Fill in facts of versions from before facts were kept: once, from files that never change."""
        return models.QuerySet.update(self.filter(facts__isnull=True), facts=facts)

    def delete(self) -> tuple[int, dict[str, int]]:
        raise VersionFrozen(_("Versions are not removed; services.delete_version lets go of their files."))


class Version(Authored, Transfer, Reconciled):
    """A version of a model: a list of files that never changes once it is ready, and its source.

    The row is also the long-lived thing that imports it; see `reconcilers.imports`.
    """

    STAGING = ""
    MOVING = VersionState.IMPORTING

    model = models.ForeignKey("models_registry.Model", on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    """1, 2, 3 ... within the model; never used twice."""
    name = models.CharField(max_length=95)
    """`v<number>` unless its author gave it another name."""
    state = models.CharField(
        max_length=10, choices=VersionState.choices, default=VersionState.IMPORTING, editable=False
    )
    reason = models.TextField(blank=True, editable=False)
    """Why it failed, was refused or deleted."""
    source = models.JSONField(default=dict, editable=False)
    """What `importing.sources.AllowedDirectory.as_json` or `hubs.import_source.AllowedRepository.as_json`
    makes.
    """
    message = models.TextField(blank=True, max_length=4_000)
    ready_at = models.DateTimeField(null=True, blank=True, editable=False)

    digest = models.CharField(max_length=64, null=True, blank=True, editable=False)  # noqa: DJ001 (None: not known)
    """See `model_store.file_manifest.FileManifest.digest`; None until it is ready."""
    size_bytes = models.BigIntegerField(default=0, editable=False)
    file_count = models.PositiveIntegerField(default=0, editable=False)
    architecture = models.CharField(max_length=200, blank=True, editable=False)
    parameters = models.BigIntegerField(null=True, blank=True, editable=False)
    context_length = models.BigIntegerField(null=True, blank=True, editable=False)
    dtype = models.CharField(max_length=40, blank=True, editable=False)
    quantization = models.CharField(max_length=40, blank=True, editable=False)
    config = models.JSONField(default=dict, blank=True, editable=False)
    facts = models.JSONField(null=True, blank=True, editable=False)
    """What `trust.formats.summary.details_of` makes; None: its files have not been read for it yet."""
    scan = models.JSONField(default=dict, blank=True, editable=False)
    """What the judgement of its files found; see `reconcilers.imports`."""
    signatures_checked_at = models.DateTimeField(null=True, editable=False)
    """When its signatures were last looked at, and made; None: that is to be done. See
    `signature_verification`.
    """
    lineage = models.JSONField(default=dict, blank=True)
    """What its author says about how it came to be, such as `base_model`, `trained_by`, `data`."""
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="+")

    is_paused = models.BooleanField(default=False, editable=False)
    """No process is to work on the import; what it holds is kept."""
    is_held = models.BooleanField(default=True, editable=False)
    """The store may still hold a staging area, or blobs to let go of: the row is not at rest yet."""

    objects = VersionQuerySet.as_manager()

    class Meta(Reconciled.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["model", "number"], name="version_number_once"),
            models.UniqueConstraint(fields=["model", "name"], name="version_name_once"),
            models.CheckConstraint(condition=Q(state__in=VersionState.values), name="version_state_known"),
            models.CheckConstraint(condition=Q(number__gte=1), name="version_number_from_one"),
            models.CheckConstraint(
                condition=~Q(state__in=sorted({VersionState.READY, VersionState.ARCHIVED}))
                | Q(digest__isnull=False, ready_at__isnull=False, file_count__gte=1),
                name="version_ready_is_whole",
            ),
            models.CheckConstraint(
                condition=Q(state__in=sorted(FROZEN)) | Q(digest=None, ready_at=None),
                name="version_digest_when_ready",
            ),
        ]
        indexes: ClassVar = [
            *Reconciled.Meta.indexes,
            models.Index(fields=["model", "state", "-number"], name="version_newest"),
            models.Index(fields=["digest"], name="version_digest"),
            # Nearly all have none, which tells a planner that an index over all of them finds nothing.
            models.Index(fields=["parent"], condition=Q(parent__isnull=False), name="version_children"),
        ]

    def __str__(self) -> str:
        return f"{self.model.name}:{self.name}"

    @property
    def short_digest(self) -> str:
        return (self.digest or "")[:12]

    def save(self, *args: Any, update_fields: Iterable[str] | None = None, **options: Any) -> None:
        frozen = update_fields is None or _FROZEN_COLUMNS & set(update_fields)
        if frozen and not self._state.adding:
            self._refuse_change()
        super().save(*args, update_fields=update_fields, **options)

    def _refuse_change(self) -> None:
        stored = Version.objects.filter(pk=self.pk, state__in=FROZEN).first()
        if stored and any(getattr(stored, name) != getattr(self, name) for name in FROZEN_FIELDS):
            raise VersionFrozen(_("A ready version never changes. Import another one."))

    def delete(self, *args: Any, **options: Any) -> tuple[int, dict[str, int]]:
        raise VersionFrozen(_("Versions are not removed; services.delete_version lets go of their files."))


class VersionFileQuerySet(TeamOwned["VersionFile"]):
    team_path = "version__model__team"

    def update(self, **columns: Any) -> int:
        raise VersionFrozen(_("The files of a version never change."))

    def delete(self) -> tuple[int, dict[str, int]]:
        if self.filter(version__state__in=FROZEN).exists():
            raise VersionFrozen(_("The files of a ready version never change."))
        return super().delete()


class VersionFile(models.Model):
    """A file of a version. As long as the version is importing or ready, it keeps its blob in the store."""

    version = models.ForeignKey(Version, on_delete=models.PROTECT, related_name="files")
    path = models.CharField(max_length=1024)
    size = models.BigIntegerField()
    sha256 = models.CharField(max_length=64, db_index=True)
    format = models.CharField(max_length=20)

    objects = VersionFileQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["version", "path"], name="version_file_once"),
            models.CheckConstraint(condition=Q(size__gte=0), name="version_file_size"),
        ]

    def __str__(self) -> str:
        return self.path

    def save(self, *args: Any, **options: Any) -> None:
        if not self._state.adding or Version.objects.filter(pk=self.version_id, state__in=FROZEN).exists():
            raise VersionFrozen(_("The files of a version never change."))
        super().save(*args, **options)

    def delete(self, *args: Any, **options: Any) -> tuple[int, dict[str, int]]:
        return VersionFile.objects.filter(pk=self.pk).delete()


class VersionTag(models.Model):
    """A word that people put on a version and take away again."""

    version = models.ForeignKey(Version, on_delete=models.PROTECT, related_name="tags")
    model = models.ForeignKey("models_registry.Model", on_delete=models.PROTECT, related_name="+")
    """The version's, so that models are found by tag without a look at their versions."""
    is_ready = models.BooleanField()
    """Whether the version is: models are found by the tags of these alone."""
    name = models.CharField(max_length=63)

    class Meta:
        ordering: ClassVar = ["name"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["version", "name"], name="version_tag_once"),
        ]
        indexes: ClassVar = [
            # A tag that nearly every model has is looked up for each of them, one that few have by itself.
            models.Index(fields=["model", "name"], condition=Q(is_ready=True), name="ready_tag_of_model"),
            models.Index(fields=["name", "model"], condition=Q(is_ready=True), name="ready_tag_by_name"),
        ]

    def __str__(self) -> str:
        return self.name


class VersionMove(models.Model):
    """A change of a version's state: when, by whom, why."""

    version = models.ForeignKey(Version, on_delete=models.PROTECT, related_name="moves")
    from_state = models.CharField(max_length=10, choices=VersionState.choices, blank=True)
    to_state = models.CharField(max_length=10, choices=VersionState.choices)
    at = models.DateTimeField(default=clock.now)
    by = models.CharField(max_length=200)
    reason = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = ["pk"]
        indexes: ClassVar = [models.Index(fields=["version", "id"], name="version_move_order")]

    def __str__(self) -> str:
        return f"{self.from_state or 'new'} -> {self.to_state}"
