from collections.abc import Iterable
from typing import Any, ClassVar

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.querysets import TeamOrShared
from common import clock
from common.revisions import Revised
from images.errors import ImageFrozen
from images.references import MAX_REFERENCE, ImageReference
from images.states import Acceleration, ImageState, TrialOutcome

image_name = RegexValidator(
    r"^[a-z0-9]([a-z0-9._-]{0,93}[a-z0-9])?\Z",
    gettext_lazy(
        "Use 1 to 95 lower-case letters, digits, '.', '_' and '-'; start and end with a letter or digit."
    ),
)
FROZEN_FIELDS = frozenset(
    {
        "team_id", "name", "engine", "repository", "digest", "engine_version", "cuda_version", "least_driver",
        "code", "formats", "runs_on_cpu", "size_bytes", "created_at", "created_by",
    }
)  # fmt: skip
_FROZEN_COLUMNS = FROZEN_FIELDS | {"team"}


class RuntimeImages(TeamOrShared["RuntimeImage"]):
    def update(self, **columns: Any) -> int:
        if _FROZEN_COLUMNS & columns.keys():
            raise ImageFrozen(_("What an image contains never changes. Add another one."))
        return super().update(**columns)

    def delete(self) -> tuple[int, dict[str, int]]:
        raise ImageFrozen(_("Images stay, since deployments name them. Deprecate it."))


class RuntimeImage(Revised):
    """A container image that runs an engine, as its digest names it: that and what it contains never change.

    What changes is where else it lies, how a cluster should load it, and whether it should still be used.
    """

    team = models.ForeignKey(
        "accounts.Team", on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    """The one whose releases may use it; None: all."""
    name = models.CharField(max_length=95, unique=True, validators=[image_name])
    engine = models.CharField(max_length=30)
    repository = models.CharField(max_length=MAX_REFERENCE)
    digest = models.CharField(max_length=71)
    engine_version = models.CharField(max_length=50)
    cuda_version = models.CharField(max_length=20, blank=True)
    """Blank: it brings no CUDA."""
    least_driver = models.CharField(max_length=20, blank=True)
    """Blank: what its CUDA needs."""
    code = models.JSONField(default=list, blank=True)
    """The compute capabilities that it was compiled for, as `cuda.Code` writes them."""
    formats = models.JSONField(default=list, blank=True)
    """Of weights, as the registry calls them; empty: not known."""
    runs_on_cpu = models.BooleanField(default=False)
    size_bytes = models.PositiveBigIntegerField(default=0)
    """To be pulled, compressed; 0: not known."""
    description = models.CharField(max_length=500, blank=True)
    mirrors = models.JSONField(default=dict, blank=True)
    """From a region to the repository that holds the same digest there."""
    acceleration = models.CharField(max_length=20, choices=Acceleration.choices, blank=True)
    acceleration_why = models.CharField(max_length=500, blank=True)
    deprecated_at = models.DateTimeField(null=True, blank=True, editable=False)
    deprecated_by = models.CharField(max_length=200, blank=True, editable=False)
    deprecated_why = models.TextField(blank=True, editable=False)
    replaced_by = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="+", editable=False
    )
    created_at = models.DateTimeField(default=clock.now, editable=False)
    created_by = models.CharField(max_length=200, editable=False)

    objects = RuntimeImages.as_manager()

    class Meta:
        ordering: ClassVar = ["name"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "digest"], name="image_once_in_team"),
            models.UniqueConstraint(
                fields=["digest"], condition=Q(team=None), name="image_once_in_installation"
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["engine", "team"], name="image_of_engine")]

    def __str__(self) -> str:
        return self.name

    @property
    def reference(self) -> str:
        return str(ImageReference(self.repository, self.digest))

    @property
    def state(self) -> ImageState:
        return ImageState.CURRENT if self.deprecated_at is None else ImageState.DEPRECATED

    @property
    def hex_digest(self) -> str:
        return self.digest.partition(":")[2]

    def reference_in(self, region: str) -> str:
        """Return the reference that a cluster of that region pulls: the same digest everywhere."""
        return str(ImageReference(self.mirrors.get(region, self.repository), self.digest))

    def save(self, *args: Any, update_fields: Iterable[str] | None = None, **options: Any) -> None:
        frozen = update_fields is None or _FROZEN_COLUMNS & set(update_fields)
        if frozen and not self._state.adding:
            stored = RuntimeImage.objects.filter(pk=self.pk).first()
            if stored and any(getattr(stored, name) != getattr(self, name) for name in FROZEN_FIELDS):
                raise ImageFrozen(_("What an image contains never changes. Add another one."))
        super().save(*args, update_fields=update_fields, **options)

    def delete(self, *args: Any, **options: Any) -> tuple[int, dict[str, int]]:
        raise ImageFrozen(_("Images stay, since deployments name them. Deprecate it."))


class ImagePullFailures(TeamOrShared["ImagePullFailure"]):
    pass


class ImagePullFailure(models.Model):
    """A cluster could not pull an image: the catalogue does not choose it until a pull there succeeds."""

    image = models.ForeignKey(RuntimeImage, on_delete=models.PROTECT, related_name="pull_failures")
    cluster = models.CharField(max_length=63)
    team = models.ForeignKey(
        "accounts.Team", on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    """The cluster's; None: shared by all."""
    reason = models.TextField()
    since = models.DateTimeField()
    at = models.DateTimeField()
    """When it was last seen to fail, within a minute."""

    objects = ImagePullFailures.as_manager()

    class Meta:
        ordering: ClassVar = ["cluster"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["image", "cluster"], name="pull_failure_once_in_cluster")
        ]

    def __str__(self) -> str:
        return f"{self.image.name} on {self.cluster}"


class ImageTrial(models.Model):
    """Somebody ran an image on a GPU, and what came of it. Never changed; a later one counts instead."""

    image = models.ForeignKey(RuntimeImage, on_delete=models.PROTECT, related_name="trials")
    gpu = models.CharField(max_length=100)
    driver = models.CharField(max_length=20, blank=True)
    architecture = models.CharField(max_length=200, blank=True)
    """Of the model; blank: any."""
    outcome = models.CharField(max_length=10, choices=TrialOutcome.choices)
    words = models.TextField(blank=True)
    at = models.DateTimeField(default=clock.now)
    by = models.CharField(max_length=200)
    user = models.ForeignKey(
        "accounts.User", null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        ordering: ClassVar = ["-at", "-pk"]
        indexes: ClassVar = [models.Index(fields=["image", "-at"], name="trial_of_image")]

    def __str__(self) -> str:
        return f"{self.image.name} on {self.gpu}: {self.outcome}"
