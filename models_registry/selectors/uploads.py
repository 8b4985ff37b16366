"""Uploads, what has come of them, and which contents somebody may see already."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import Prefetch, QuerySet
from django.utils.translation import gettext as _

from common.actor import Actor
from model_store.errors import StoreUnavailable, UnknownUpload
from model_store.models import CorruptBlob
from model_store.upload_buffer import lacking_bytes
from models_registry import files
from models_registry.models import Model, Upload, UploadContent, Version, VersionFile
from models_registry.states import WHOLE

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class ContentCard:
    """A content of an upload, and the ranges of its bytes that have come."""

    sha256: str
    size: int
    received: tuple[range, ...]

    @property
    def received_bytes(self) -> int:
        return sum(map(len, self.received))

    @property
    def is_whole(self) -> bool:
        return self.received_bytes == self.size


@dataclass(frozen=True, slots=True)
class UploadCard:
    """An upload as lists show it. `missing`: contents parts of which have not come yet; by sha256."""

    upload: Upload
    received_bytes: int
    """Of all contents, each once; what need not come included."""
    total_bytes: int
    missing: tuple[ContentCard, ...] = field(default=())

    @property
    def seconds_left(self) -> float | None:
        """Return the seconds left at the present rate; None when that cannot be told."""
        rate = self.upload.rate
        return (self.total_bytes - self.received_bytes) / rate if rate else None


def seen_contents(actor: Actor, contents: Mapping[str, int]) -> set[str]:
    """Return the contents (bytes by sha256) that a version which the actor may see holds, sizes compared.

    Contents that only other teams hold are left out: who names a sha256 need not have its bytes. So are those
    that checks have found damaged: they have to be sent again.
    """
    found: set[str] = set()
    listed = list(contents)
    seen = VersionFile.objects.for_actor(actor).filter(version__state__in=WHOLE)
    seen = seen.filter(version__model__deleted_at=None).order_by()
    seen = seen.exclude(sha256__in=CorruptBlob.objects.open().values("sha256"))
    for start in range(0, len(listed), _AT_ONCE):
        rows = seen.filter(sha256__in=listed[start : start + _AT_ONCE])
        for sha256, size in rows.values_list("sha256", "size").distinct():
            if contents[sha256] == size:
                found.add(sha256)
    return found


def uploads(actor: Actor, model: Model | None = None, *, are_live: bool = False) -> QuerySet[Upload]:
    """The uploads to a model, or to all that the actor may see, or only those under way; newest first."""
    rows = Upload.objects.for_actor(actor)
    rows = rows.filter(model=model) if model else rows.filter(model__deleted_at=None)
    rows = rows.live() if are_live else rows
    # Not by a join: nearly always there are none.
    versions = Version.objects.only("name", "digest", "model")
    return rows.prefetch_related("model", Prefetch("version", versions)).order_by("-pk")


def upload_of(model: Model, pk: int) -> Upload:
    """Raises UnknownUpload."""
    rows = Upload.objects.filter(model=model, pk=pk).select_related("model__team", "version__model")
    if (found := rows.first()) is None:
        raise UnknownUpload(_("%(model)s has no such upload.") % {"model": model})
    return found


def upload_cards(uploads: Sequence[Upload]) -> list[UploadCard]:
    """Return the cards of these uploads in their order: one query for any number of them."""
    if not uploads:
        return []
    contents: dict[int, list[UploadContent]] = {upload.pk: [] for upload in uploads}
    rows = UploadContent.objects.filter(upload__in=[one.pk for one in uploads if one.is_live])
    for content in rows.order_by("sha256"):
        contents[content.upload_id].append(content)
    return [_card(upload, contents[upload.pk]) for upload in uploads]


def _card(upload: Upload, contents: Sequence[UploadContent]) -> UploadCard:
    if not upload.is_live:
        return UploadCard(upload, 0, 0)
    total = sum(one.size for one in contents)
    try:
        received = files.buffer_of(upload).missing(contents)
    except StoreUnavailable:
        # As its row last said: which parts have come is known to the store alone.
        waited_for = tuple(ContentCard(one.sha256, one.size, ()) for one in contents)
        return UploadCard(upload, min(upload.bytes_done, total), total, waited_for)
    lacking = [one for one in contents if one.sha256 in received]
    missing = tuple(ContentCard(one.sha256, one.size, tuple(received[one.sha256])) for one in lacking)
    return UploadCard(upload, total - lacking_bytes(lacking, received), total, missing)


def upload_card(upload: Upload) -> UploadCard:
    return upload_cards([upload])[0]


def content_card(upload: Upload, sha256: str) -> ContentCard:
    """Return a content of a live upload. Raises UnknownUpload."""
    content = UploadContent.objects.filter(upload=upload, sha256=sha256).first()
    if content is None or not upload.is_live:
        raise UnknownUpload(_("The %(upload)s has no such content, or not any more.") % {"upload": upload})
    received = files.buffer_of(upload).received(content)
    return ContentCard(sha256, content.size, tuple(received))
