import uuid
from datetime import timedelta
from typing import ClassVar, Self

from django.db import models
from django.db.models import Q
from django.utils import timezone

from accounts.authored import Authored
from accounts.querysets import TeamOwned
from common import clock
from common.reconcile import Reconciled
from models_registry.states import LIVE_UPLOADS, UploadState

RATE_SHOWN_FOR = timedelta(seconds=15)
"""A rate that is older tells nothing any more."""


class UploadQuerySet(TeamOwned["Upload"]):
    team_path = "model__team"

    def live(self) -> Self:
        return self.filter(state__in=LIVE_UPLOADS)


class Upload(Authored, Reconciled):
    """Files on their way from somebody's machine, and the version that is made of them once all have come.

    What has come lies in a `UploadBuffer`, which alone knows how much that is.
    """

    model = models.ForeignKey("models_registry.Model", on_delete=models.PROTECT, related_name="+")
    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    """Name of its upload buffer: an id may be given out again after a creation that was rolled back."""
    state = models.CharField(
        max_length=10, choices=UploadState.choices, default=UploadState.OPEN, editable=False
    )
    reason = models.TextField(blank=True, editable=False)
    """Why it is where it is, as a sentence."""
    fingerprint = models.CharField(max_length=64, editable=False)
    """Digest of its manifest: who begins the same again goes on with it."""
    part_bytes = models.PositiveIntegerField(editable=False)
    """All parts but the last of a content have this size."""
    file_count = models.PositiveIntegerField(editable=False)
    size_bytes = models.BigIntegerField(editable=False)
    """Of all its files, each counted in full."""
    new_bytes = models.BigIntegerField(editable=False)
    """Of contents that the team did not hold: so much of the team's quota is reserved."""
    version = models.ForeignKey(
        "models_registry.Version", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    address = models.CharField(max_length=64, blank=True, editable=False)
    """From which it was begun."""
    sent_from = models.CharField(max_length=300, blank=True, editable=False)
    """Machine and directory, in the client's words."""
    touched_at = models.DateTimeField(default=clock.now, editable=False)
    """When somebody last sent something."""
    ended_at = models.DateTimeField(null=True, blank=True, editable=False)
    is_held = models.BooleanField(default=True, editable=False)
    """Its upload buffer may still be there."""
    bytes_done = models.BigIntegerField(default=0, editable=False)
    """What had come when that was last looked at, `rate_at`; `bytes_per_second` is since the look before."""
    bytes_per_second = models.BigIntegerField(default=0, editable=False)
    rate_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = UploadQuerySet.as_manager()

    class Meta(Reconciled.Meta):
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(state__in=UploadState.values), name="upload_state_known"),
            models.CheckConstraint(
                condition=~Q(state__in=[UploadState.IMPORTING, UploadState.DONE]) | Q(version__isnull=False),
                name="upload_has_version",
            ),
        ]
        indexes: ClassVar = [
            *Reconciled.Meta.indexes,
            models.Index(fields=["model", "-id"], name="upload_newest"),
        ]

    def __str__(self) -> str:
        return f"upload {self.pk} to {self.model.name}"

    @property
    def is_live(self) -> bool:
        return self.state in LIVE_UPLOADS

    @property
    def rate(self) -> int:
        """Bytes per second at which it comes now; 0 when nothing comes."""
        if self.state != UploadState.OPEN or timezone.now() - self.touched_at > RATE_SHOWN_FOR:
            return 0
        return self.bytes_per_second


class UploadContent(models.Model):
    """A content that an upload's files have; files of one content share it."""

    upload = models.ForeignKey(Upload, on_delete=models.CASCADE, related_name="contents")
    sha256 = models.CharField(max_length=64)
    size = models.BigIntegerField()
    is_known = models.BooleanField()
    """A version that its author may see holds it: it need not come, and stays while the upload lives."""

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["upload", "sha256"], name="upload_content_once"),
            models.CheckConstraint(condition=Q(size__gte=0), name="upload_content_size"),
        ]
        indexes: ClassVar = [models.Index(fields=["sha256"], name="upload_content")]

    def __str__(self) -> str:
        return self.sha256
