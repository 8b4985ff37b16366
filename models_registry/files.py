"""The files of versions: rows here, bytes in the store."""

import re
import time
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from models_registry import uses
from models_registry.errors import BlobMissing, IntakeBusy, NotFetched, OnItsWay, WrongState
from models_registry.file_manifest import Manifest, ManifestFile
from models_registry.models import (
    Check,
    Export,
    Finding,
    UnreferencedBlob,
    Upload,
    UploadContent,
    Version,
    VersionFile,
)
from models_registry.processes import bringer
from models_registry.states import HOLDS_BLOBS, LIVE_UPLOADS, FindingState, VersionState
from models_registry.store import BUCKET, Store, opened_at
from models_registry.store.place import Place
from models_registry.store.spool import Spool

_AT_ONCE = 500
_ROWS_KEY = re.compile(r"(?:check-|repair-|export-)?\d+")
"""Of the intakes that belong to rows: of versions, checks, findings and exports."""
_BEING_MADE = timedelta(hours=1)
"""A spool that is younger may belong to a row that is not committed yet."""


def store() -> Store:
    """The store of this installation."""
    node = Path(settings.SLIPWAY_STORE_DIR)
    if not settings.SLIPWAY_STORE:
        return opened_at(str(node))
    bucket, _, prefix = settings.SLIPWAY_STORE.removeprefix(BUCKET).partition("/")
    place = Place(
        bucket,
        node,
        settings.SLIPWAY_STORE_CACHE_BYTES,
        prefix=prefix,
        endpoint=settings.SLIPWAY_STORE_ENDPOINT,
        region=settings.SLIPWAY_STORE_REGION,
        path_style=settings.SLIPWAY_STORE_PATH_STYLE,
    )
    return opened_at(place.address)


def spool_of(upload: Upload) -> Spool:
    return Spool(_spools() / upload.key.hex, part_bytes=upload.part_bytes)


def _spools() -> Path:
    return Path(settings.SLIPWAY_STORE_DIR) / "uploads"


def manifest_of(version: Version) -> Manifest:
    """The manifest that the version's rows were made from."""
    rows = VersionFile.objects.filter(version=version.pk)
    files = (ManifestFile(*columns) for columns in rows.values_list("path", "size", "sha256", "format"))
    return Manifest(tuple(sorted(files, key=lambda file: file.path.encode())))


def materialise(version: Version) -> Path:
    """A directory with the version's files in Hugging Face layout, for a worker to read. Idempotent.

    Raises WrongState unless the version is ready, BlobMissing when the store has lost a file or knows that
    one is damaged, OnItsWay as long as they are being fetched to this node, and NotFetched when that fails.
    """
    if version.state != VersionState.READY:
        raise WrongState(
            _("%(version)s is %(state)s, not ready: it has no files to serve.")
            % {"version": version, "state": version.get_state_display().lower()}
        )
    _refuse_damaged(version)
    place, manifest = store(), manifest_of(version)
    if not place.is_at_hand(manifest):
        _let_go_of_unused(place, manifest)
        said = bringer.start(place, manifest, log_dir=Path(settings.SLIPWAY_LOG_DIR))
        if said:
            raise NotFetched(
                _("The files of %(version)s cannot be fetched to this node: %(said)s")
                % {"version": version, "said": said}
            )
        here = place.come_bytes(manifest)
        if here == manifest.size_bytes:
            raise OnItsWay(
                _("The files of %(version)s are read and compared with their hashes first.")
                % {"version": version}
            )
        raise OnItsWay(
            _(
                "The files of %(version)s are on their way to this node: %(here)s of %(size_bytes)s "
                "bytes are here."
            )
            % {"version": version, "here": f"{here:,}", "size_bytes": f"{manifest.size_bytes:,}"}
        )
    return place.materialise(manifest)


def _refuse_damaged(version: Version) -> None:
    """BlobMissing while content that a check has found to be wrong is not back."""
    wrong = Finding.objects.open().exclude(mark="").about(version).first()
    if wrong is not None:
        file = VersionFile.objects.filter(version=version, sha256=wrong.sha256).first()
        what_now = (
            _("It could not be fetched again: see the findings of the model store.")
            if wrong.state == FindingState.LOST
            else _("It is being fetched again.")
        )
        raise BlobMissing(
            _("The stored content of %(file)s of %(version)s is damaged. %(what_now)s")
            % {"file": file, "version": version, "what_now": what_now}
        )


def _let_go_of_unused(place: Store, wanted: Manifest) -> None:
    """Give up directories of versions that nobody serves, when the node has no room left for what is wanted.

    What becomes of their files is up to the node's cache, which deletes those that were used longest ago.
    """
    look = place.look()
    if not look.cache_limit_bytes or look.cache_bytes is None:
        return
    coming = wanted.size_bytes - place.come_bytes(wanted)
    if look.cache_bytes + coming <= look.cache_limit_bytes:
        return
    served = Version.objects.filter(uses.versions_in_use()).values_list("digest", flat=True)
    for digest in place.materialised().keys() - set(served):
        place.dematerialise(digest)


def referenced(blobs: Collection[str]) -> set[str]:
    """Those of the sha256s that an importing or ready version needs, or an upload that goes on."""
    needing = VersionFile.objects.filter(version__state__in=HOLDS_BLOBS)
    known = UploadContent.objects.filter(is_known=True, upload__state__in=LIVE_UPLOADS)
    return named_in(needing, blobs) | named_in(known, blobs)


def needed(blobs: Collection[str]) -> set[str]:
    """Those that a version needs, or needed until lately: when these go, collections decide."""
    return referenced(blobs) | named_in(UnreferencedBlob.objects.all(), blobs)


def keep_unreferenced(key: str, *, since: datetime) -> None:
    """Publish what an intake holds though no version needs it; collections delete it after the grace time."""
    held = store().held(key)
    manifest = Manifest(tuple(ManifestFile(sha256, size, sha256) for sha256, size in held.items()))
    # Noted before it is published, or the intake would take it along when it is discarded.
    unneeded = held.keys() - referenced(held)
    UnreferencedBlob.objects.bulk_create(
        (UnreferencedBlob(sha256=sha256, size=held[sha256], since=since) for sha256 in unneeded),
        batch_size=_AT_ONCE,
        ignore_conflicts=True,
    )
    with suppress(BlobMissing):
        store().publish(key, manifest)


def named_in(rows: QuerySet[Any], blobs: Collection[str]) -> set[str]:
    """Those of the sha256s that the rows name; asked for some at a time, for databases limit a question."""
    listed, found = list(blobs), set[str]()
    for start in range(0, len(listed), _AT_ONCE):
        some = rows.filter(sha256__in=listed[start : start + _AT_ONCE])
        found.update(some.values_list("sha256", flat=True).distinct())
    return found


def forget_orphans() -> None:
    """Intakes and spools whose row does not know of them, as after a database was restored from a backup."""
    found = {key for key in store().intakes() if _ROWS_KEY.fullmatch(key)}
    importing = map(int, filter(str.isdigit, found))
    held = Version.objects.filter(pk__in=importing, is_held=True).values_list("pk", flat=True)
    known = {str(pk) for pk in held}
    if found - known:
        at_work = Finding.objects.filter(Q(is_held=True) | Q(state=FindingState.ASIDE))
        known |= {row.intake_key for row in (*Check.objects.running(), *at_work)}
        known |= {row.intake_key for row in Export.objects.filter(is_held=True)}
    for key in found - known:
        with suppress(IntakeBusy):
            store().discard(key, is_referenced=needed)
    _forget_orphaned_spools()


def _forget_orphaned_spools() -> None:
    before = time.time() - _BEING_MADE.total_seconds()
    with suppress(FileNotFoundError):
        old = {path.name: path for path in _spools().iterdir() if path.stat().st_mtime < before}
        known = {key.hex for key in Upload.objects.filter(is_held=True).values_list("key", flat=True)}
        for name in old.keys() - known:
            Spool(old[name], part_bytes=1).discard()
