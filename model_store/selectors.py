"""The contents of the store, and the findings of its checks."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, QuerySet, Sum

from model_store import blob_store, references
from model_store.backends.base import StoreDescription
from model_store.errors import StoreUnavailable
from model_store.models import Check, Collection, CorruptBlob, UnreferencedBlob
from model_store.references import BlobOwner
from model_store.states import OPEN_CORRUPT_BLOBS


@dataclass(frozen=True, slots=True)
class StoreSummary:
    """The contents of the store. Sizes in bytes."""

    blobs: int
    """That are needed, each once."""
    bytes: int
    version_bytes: int
    """Of all versions that need them, each counted in full."""
    waiting_blobs: int
    """That nothing needs any more, until the grace time is over."""
    waiting_bytes: int
    free_bytes: int | None
    """None: it has no limit."""
    look: StoreDescription | None
    problem: str
    """Why it cannot be reached; empty when it can."""
    last_collection: Collection | None
    last_check: Check | None
    open_findings: int

    @property
    def dedup_factor(self) -> float | None:
        """The ratio of bytes with a copy per version to the bytes that are stored."""
        return self.version_bytes / self.bytes if self.bytes else None


def store_now() -> StoreSummary:
    needed = references.usage()
    waiting = UnreferencedBlob.objects.aggregate(blobs=Count("*"), bytes=Sum("size"))
    store, problem = blob_store.store(), ""
    look: StoreDescription | None = None
    try:
        look = store.look()
    except StoreUnavailable as error:
        problem = str(error)
    return StoreSummary(
        blobs=needed.blobs,
        bytes=needed.bytes,
        version_bytes=needed.all_bytes,
        waiting_blobs=waiting["blobs"],
        waiting_bytes=waiting["bytes"] or 0,
        free_bytes=store.free_bytes(),
        look=look,
        problem=problem,
        last_collection=collections().first(),
        last_check=checks().first(),
        open_findings=CorruptBlob.objects.open().count(),
    )


def collections() -> QuerySet[Collection]:
    """Newest first."""
    return Collection.objects.order_by("-pk")


@dataclass(frozen=True, slots=True)
class CorruptBlobCard:
    """A corrupt blob as lists show it, with what it touches, oldest first."""

    corrupt_blob: CorruptBlob
    owners: tuple[BlobOwner, ...]


def corrupt_blob_cards(corrupt_blobs: Sequence[CorruptBlob]) -> list[CorruptBlobCard]:
    """Return the cards of these corrupt blobs in their order: one query for any number of them."""
    touched = references.owners({corrupt_blob.sha256 for corrupt_blob in corrupt_blobs})
    return [CorruptBlobCard(one, touched.get(one.sha256, ())) for one in corrupt_blobs]


def corrupt_blob_card(corrupt_blob: CorruptBlob) -> CorruptBlobCard:
    return corrupt_blob_cards([corrupt_blob])[0]


def checks() -> QuerySet[Check]:
    """Newest first."""
    return Check.objects.order_by("-pk")


def corrupt_blobs() -> QuerySet[CorruptBlob]:
    """Newest first."""
    return CorruptBlob.objects.order_by("-pk")


def corrupt_blobs_by_state() -> dict[str, int]:
    """Return the number of corrupt blobs in each open state, zeros included."""
    counted = CorruptBlob.objects.open().order_by().values_list("state").annotate(Count("pk"))
    return dict.fromkeys(map(str, sorted(OPEN_CORRUPT_BLOBS)), 0) | dict(counted)
