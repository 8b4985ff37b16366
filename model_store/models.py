"""Runs over the store, what they find, and what teams may hold."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, Self, TypeVar

from django.conf import settings
from django.db import models
from django.db.models import Exists, OuterRef, Q

from common import clock
from common.hosts import MOST_CHARACTERS
from common.reconcile import Reconciled, Singleton
from common.revisions import Revised
from model_store.staged import Launched
from model_store.states import OPEN_CORRUPT_BLOBS, CorruptBlobState, RunState


class StorageQuota(Revised):
    """A team's limit in bytes for its versions, each content counted once."""

    team = models.OneToOneField("accounts.Team", on_delete=models.CASCADE, related_name="+")
    limit_bytes = models.BigIntegerField(null=True)
    """None: as many as there is room for."""
    reason = models.TextField(blank=True, editable=False)
    changed_at = models.DateTimeField(default=clock.now, editable=False)
    changed_by_name = models.CharField(max_length=200, blank=True, editable=False)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(limit_bytes=None) | Q(limit_bytes__gte=0), name="storage_quota_limit"
            )
        ]

    def __str__(self) -> str:
        return f"storage of {self.team.name}"


class StoreSchedule(Singleton):
    """Begins what the store needs from time to time."""

    collect_at = models.DateTimeField(default=clock.now, editable=False)
    """When the schedule begins the next collection."""
    check_at = models.DateTimeField(default=clock.now, editable=False)
    """When it begins the next check."""

    def __str__(self) -> str:
        return "the store's keeper"

    @classmethod
    def seed(cls, now: datetime) -> Mapping[str, Any]:
        tomorrow = now + timedelta(days=1)
        later = now + timedelta(days=settings.SLIPWAY_STORE_CHECK_DAYS)
        return {"next_at": tomorrow, "collect_at": tomorrow, "check_at": later}


R = TypeVar("R", bound="StoreRun")


class StoreRuns(models.QuerySet[R]):
    def running(self) -> Self:
        return self.filter(state=RunState.RUNNING)


class StoreRun(Reconciled):
    """Something that is done to the whole store: once, from beginning to end."""

    state = models.CharField(
        max_length=10, choices=RunState.choices, default=RunState.RUNNING, editable=False
    )
    asked_by_name = models.CharField(max_length=200, editable=False)
    reason = models.TextField(blank=True, editable=False)
    began_at = models.DateTimeField(default=clock.now, editable=False)
    ended_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta(Reconciled.Meta):
        abstract = True
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["state"], condition=Q(state=RunState.RUNNING), name="%(class)s_one_running"
            ),
        ]

    @property
    def is_running(self) -> bool:
        return self.state == RunState.RUNNING


class Collection(StoreRun):
    """A walk over the store that deletes blobs which nothing has needed for the grace time."""

    grace_seconds = models.PositiveIntegerField(editable=False)
    place = models.PositiveSmallIntegerField(default=0, editable=False)
    """How many of the store's 256 parts it has been through."""
    blobs = models.PositiveIntegerField(default=0, editable=False)
    """What it found, so far."""
    bytes = models.BigIntegerField(default=0, editable=False)
    waiting_blobs = models.PositiveIntegerField(default=0, editable=False)
    """Needed by nothing, but not for long enough."""
    waiting_bytes = models.BigIntegerField(default=0, editable=False)
    deleted_blobs = models.PositiveIntegerField(default=0, editable=False)
    deleted_bytes = models.BigIntegerField(default=0, editable=False)

    objects = StoreRuns["Collection"].as_manager()

    def __str__(self) -> str:
        return f"collection {self.pk}"


class UnreferencedBlob(models.Model):
    """A blob that no version needs: since when that is known. Collections write these, and remove them."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    size = models.BigIntegerField()
    since = models.DateTimeField()

    def __str__(self) -> str:
        return self.sha256


class Check(StoreRun, Launched):
    """A reading of the whole store that compares every blob with its name, and with the versions' needs."""

    STAGING = "check-"

    bytes_per_second = models.BigIntegerField(editable=False)
    """It reads no faster."""
    has_read = models.BooleanField(default=False, editable=False)
    """The process is through; what is missing is looked for."""
    blobs_done = models.PositiveIntegerField(default=0, editable=False)
    blobs_total = models.PositiveIntegerField(default=0, editable=False)
    bytes_done = models.BigIntegerField(default=0, editable=False)
    bytes_total = models.BigIntegerField(default=0, editable=False)
    damaged = models.PositiveIntegerField(default=0, editable=False)
    missing = models.PositiveIntegerField(default=0, editable=False)

    objects = StoreRuns["Check"].as_manager()

    def __str__(self) -> str:
        return f"check {self.pk}"


class CorruptBlobs(models.QuerySet["CorruptBlob"]):
    def open(self) -> Self:
        return self.filter(state__in=OPEN_CORRUPT_BLOBS)

    def about(self, files: models.QuerySet[Any]) -> Self:
        """Select the blobs that the `files` name by `sha256`."""
        return self.filter(Exists(files.filter(sha256=OuterRef("sha256")))).order_by("pk")


class CorruptBlob(Launched, Reconciled):
    """A blob that is damaged or missing, and what is done about it."""

    STAGING = "repair-"

    found_by = models.ForeignKey(Check, on_delete=models.PROTECT, related_name="corrupt_blobs")
    sha256 = models.CharField(max_length=64, db_index=True)
    """What its content should be."""
    size = models.BigIntegerField()
    """Bytes that it should have; of one that no version needs, those that it had."""
    mark = models.CharField(max_length=200, blank=True, editable=False)
    """Of what was found there, see `Flaw`; empty: there was nothing."""
    detail = models.TextField()
    """What is wrong with it, as a sentence."""
    state = models.CharField(
        max_length=10, choices=CorruptBlobState.choices, default=CorruptBlobState.FOUND, editable=False
    )
    reason = models.TextField(blank=True, editable=False)
    """Why it is where it is, as a sentence."""
    tried = models.JSONField(default=list, editable=False)
    """Ids of the versions from whose sources it was not to be had."""
    is_held = models.BooleanField(default=False, editable=False)
    """The store may hold a staging area for it."""
    found_at = models.DateTimeField(default=clock.now, editable=False)
    ended_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = CorruptBlobs.as_manager()

    class Meta(Reconciled.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["sha256"], condition=Q(state__in=sorted(OPEN_CORRUPT_BLOBS)), name="finding_one_open"
            ),
            models.CheckConstraint(
                condition=Q(state__in=CorruptBlobState.values), name="finding_state_known"
            ),
        ]

    def __str__(self) -> str:
        return f"finding {self.pk}"


class ModelDirectoryHost(Reconciled):
    """A host that has versions of a bucket laid out on its own disk, where only its processes reach them."""

    host = models.CharField(max_length=MOST_CHARACTERS, unique=True)

    class Meta(Reconciled.Meta):
        pass

    def __str__(self) -> str:
        return self.host
