"""The store of this installation, and which of its blobs are needed."""

import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db.models import Q

from model_store import references
from model_store.backends.base import BlobStore
from model_store.backends.location import BucketLocation
from model_store.backends.opening import BUCKET, opened_at
from model_store.errors import BlobMissing, StagingBusy
from model_store.file_manifest import FileManifest, ManifestFile
from model_store.models import Check, CorruptBlob, UnreferencedBlob
from model_store.states import CorruptBlobState

_AT_ONCE = 500
_ROWS_KEY = re.compile(r"(?:[a-z]+-)?\d+")
"""Of the staging areas that belong to rows."""


def store() -> BlobStore:
    """The store of this installation."""
    node = Path(settings.SLIPWAY_STORE_DIR)
    if not settings.SLIPWAY_STORE:
        return opened_at(str(node))
    bucket, _, prefix = settings.SLIPWAY_STORE.removeprefix(BUCKET).partition("/")
    place = BucketLocation(
        bucket,
        node,
        settings.SLIPWAY_STORE_CACHE_BYTES,
        prefix=prefix,
        endpoint=settings.SLIPWAY_STORE_ENDPOINT,
        region=settings.SLIPWAY_STORE_REGION,
        path_style=settings.SLIPWAY_STORE_PATH_STYLE,
    )
    return opened_at(place.address)


def needed(blobs: Collection[str]) -> set[str]:
    """Return the blobs that a row needs, or needed within the grace time: collections decide on the
    others.
    """
    return references.referenced(blobs) | references.named_in(UnreferencedBlob.objects.all(), blobs)


def begin_grace(blobs: Iterable[tuple[str, int]], *, since: datetime) -> None:
    """Begin the grace time of these (sha256, bytes), which nothing needs since `since`."""
    UnreferencedBlob.objects.bulk_create(
        (UnreferencedBlob(sha256=sha256, size=size, since=since) for sha256, size in blobs),
        batch_size=_AT_ONCE,
        update_conflicts=True,
        unique_fields=["sha256"],
        update_fields=["since"],
    )


def keep_unreferenced(key: str, *, since: datetime) -> None:
    """Publish what a staging area holds though nothing needs it; collections delete it after the grace
    time.
    """
    held = store().held(key)
    manifest = FileManifest(tuple(ManifestFile(sha256, size, sha256) for sha256, size in held.items()))
    # Noted before it is published, or the staging area would take it along when it is discarded.
    unneeded = held.keys() - references.referenced(held)
    UnreferencedBlob.objects.bulk_create(
        (UnreferencedBlob(sha256=sha256, size=held[sha256], since=since) for sha256 in unneeded),
        batch_size=_AT_ONCE,
        ignore_conflicts=True,
    )
    with suppress(BlobMissing):
        store().publish(key, manifest)


def forget_orphans() -> None:
    """Remove staging areas and quarantined blobs without a row, as after a restore of the database."""
    found = {key for key in store().staging_keys() if _ROWS_KEY.fullmatch(key)}
    known = references.known_keys(found) if found else set[str]()
    if found - known:
        at_work = CorruptBlob.objects.filter(Q(is_held=True) | Q(state=CorruptBlobState.ASIDE))
        known |= {row.staging_key for row in (*Check.objects.running(), *at_work)}
    for key in found - known:
        with suppress(StagingBusy):
            store().discard(key, is_referenced=needed)
    references.tidy()
