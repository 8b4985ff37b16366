"""The files of versions: rows here, bytes in the store."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from common.errors import WrongState
from common.jobs.runners.subprocess import local_runner
from model_store import blob_store
from model_store.backends.base import BlobStore
from model_store.errors import BlobMissing
from model_store.file_manifest import FileManifest, ManifestFile
from model_store.models import CorruptBlob
from model_store.processes import node_prefetch
from model_store.services import note_directories_here
from model_store.states import CorruptBlobState
from model_store.upload_buffer import UploadBuffer, buffer_at, forget_buffers
from models_registry import references
from models_registry.companions import companions, versions_with_companions
from models_registry.errors import FilesUnderWay, NotFetched
from models_registry.models import Upload, Version, VersionFile
from models_registry.states import VersionState

_BEING_MADE = timedelta(hours=1)
"""An upload buffer that is younger may belong to a row that is not committed yet."""


def buffer_of(upload: Upload) -> UploadBuffer:
    """Return the buffer, beside the files of versions: on this host's disk, or where all hosts find it."""
    return buffer_at(blob_store.store().address, upload.key.hex, part_bytes=upload.part_bytes)


def manifest_of(version: Version) -> FileManifest:
    """The manifest that the version's rows were made from."""
    rows = VersionFile.objects.filter(version=version.pk)
    files = (ManifestFile(*columns) for columns in rows.values_list("path", "size", "sha256", "format"))
    return FileManifest(tuple(sorted(files, key=lambda file: file.path.encode())))


def laid_out(version: Version) -> tuple[str, FileManifest]:
    """Return digest and files of the version's directory, with those of its companions."""
    own, beside = manifest_of(version), companions(version.pk)
    if not beside:
        return version.digest or "", own
    files = {file.path: file for file in own.files}
    for place, one in beside.items():
        moved = (replace(file, path=f"{place}/{file.path}") for file in manifest_of(one).files)
        files |= {file.path: file for file in moved}
    whole = FileManifest(tuple(sorted(files.values(), key=lambda file: file.path.encode())))
    return whole.digest, whole


def digests_with_companions() -> set[str]:
    """Return the digests of the directories that hold files of several versions."""
    rows = Version.objects.filter(pk__in=versions_with_companions())
    return {laid_out(version)[0] for version in rows}


def damages(version: Version) -> QuerySet[CorruptBlob]:
    """The open corrupt blobs about files of the version: while there are any it cannot be released."""
    return CorruptBlob.objects.open().about(VersionFile.objects.filter(version=version))


def materialise(version: Version) -> Path:
    """A directory with the version's files in Hugging Face layout, for a worker to read. Idempotent.

    Raises WrongState unless the version is ready, BlobMissing when the store has lost a file or knows that
    one is damaged, FilesUnderWay while they are being fetched to this node, and NotFetched when that fails.
    """
    if version.state != VersionState.READY:
        raise WrongState(
            _("%(version)s is %(state)s, not ready: it has no files to serve.")
            % {"version": version, "state": version.get_state_display().lower()}
        )
    for one in (version, *companions(version.pk).values()):
        refuse_damaged(one)
    place, manifest = blob_store.store(), laid_out(version)[1]
    if not place.is_at_hand(manifest):
        note_directories_here()
        _let_go_of_unused(place, manifest)
        said = node_prefetch.start(local_runner(), place, manifest)
        if said:
            raise NotFetched(
                _("The files of %(version)s cannot be fetched to this node: %(said)s")
                % {"version": version, "said": said}
            )
        here = place.come_bytes(manifest)
        if here == manifest.size_bytes:
            raise FilesUnderWay(
                _("The files of %(version)s are read and compared with their hashes first.")
                % {"version": version},
                come_bytes=here,
                size_bytes=here,
            )
        raise FilesUnderWay(
            _(
                "The files of %(version)s are on their way to this node: %(here)s of %(size_bytes)s "
                "bytes are here."
            )
            % {"version": version, "here": f"{here:,}", "size_bytes": f"{manifest.size_bytes:,}"},
            come_bytes=here,
            size_bytes=manifest.size_bytes,
        )
    return place.materialise(manifest)


def refuse_damaged(version: Version) -> None:
    """BlobMissing while content that a check has found to be wrong is not back."""
    wrong = damages(version).exclude(mark="").first()
    if wrong is not None:
        file = VersionFile.objects.filter(version=version, sha256=wrong.sha256).first()
        what_now = (
            _("It could not be fetched again: see the findings of the model store.")
            if wrong.state == CorruptBlobState.LOST
            else _("It is being fetched again.")
        )
        raise BlobMissing(
            _("The stored content of %(file)s of %(version)s is damaged. %(what_now)s")
            % {"file": file, "version": version, "what_now": what_now}
        )


def _let_go_of_unused(place: BlobStore, wanted: FileManifest) -> None:
    """Give up directories of versions that nobody serves, when the node has no room left for what is wanted.

    What becomes of their files is up to the node's cache, which deletes those that were used longest ago.
    """
    look = place.look()
    if not look.cache_limit_bytes or look.cache_bytes is None:
        return
    coming = wanted.size_bytes - place.come_bytes(wanted)
    if look.cache_bytes + coming <= look.cache_limit_bytes:
        return
    served = Version.objects.filter(references.versions_in_use()).values_list("digest", flat=True)
    for digest in place.materialised().keys() - set(served) - digests_with_companions():
        place.dematerialise(digest)


def forget_orphaned_buffers() -> None:
    """Remove upload buffers without an upload, as after a restore of the database."""
    keys = Upload.objects.filter(is_held=True).values_list("key", flat=True)
    forget_buffers(blob_store.store().address, known={key.hex for key in keys}, older_than=_BEING_MADE)
