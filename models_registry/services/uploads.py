"""Uploads: begun with the whole list of files, filled part by part, and made a version."""

import errno
import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from common import audit, clock, texts
from common.actor import Actor
from common.errors import NameTaken, WrongState
from common.reconcile import kernel
from model_store import blob_store, quotas
from model_store.errors import FileRefused, PartRefused, RunUnderWay, StoreFull, UnknownUpload
from model_store.file_manifest import FileManifest, ManifestFile, manifest_of
from model_store.upload_buffer import RequestBody, UploadBuffer, lacking_bytes, part_bytes_in
from models_registry.errors import FilesRefused
from models_registry.exemptions import admits_runnable
from models_registry.files import buffer_of
from models_registry.importing.results import MAX_REFUSALS
from models_registry.importing.skipped import why_skipped
from models_registry.importing.source_tree import MAX_FILES
from models_registry.models import Model, Upload, UploadContent, Version
from models_registry.selectors import uploads
from models_registry.services import imports, versions
from models_registry.states import UPLOAD_MOVES, UploadState, VersionState
from trust.formats.identification import check_name, check_size

REQUEST_BYTES = 16 * 1024 * 1024
"""Of the parts that come in one request; as many as a client can send in a moment."""
MOST_LIVE = 20
"""Uploads to one model at a time: each takes room."""
MOST_BYTES = 2**50
"""Of one file."""
MAX_ORIGIN = 300
LOOK_EVERY = timedelta(seconds=5)
"""So often it is seen how fast the parts come."""
_EMPTY = hashlib.sha256().hexdigest()
_RANGE = re.compile(r"bytes (\d{1,16})-(\d{1,16})/(\d{1,16})")


def begin_upload(
    *, actor: Actor, model: Model, files: Sequence[Mapping[str, Any]], origin: str = ""
) -> Upload:
    """Announce the files (`{"path", "size", "sha256"}`) of a version, or go on with what the actor began.

    What versions that the actor may see hold need not come; the room for the rest is taken. Raises
    NotAllowed, FilesRefused, StorageQuotaExceeded, StoreFull, RunUnderWay, UnknownModel.
    """
    require(actor, Right.MODELS_WRITE, model.team)
    manifest = _announced(files, may_run=admits_runnable(model))
    contents = {file.sha256: file.size for file in manifest.files}
    known = uploads.seen_contents(actor, contents)
    if (same := _same(actor, model, manifest, known)) is not None:
        return same
    row = Upload(
        model=model,
        fingerprint=manifest.digest,
        part_bytes=part_bytes_in(blob_store.store().address),
        file_count=len(manifest.files),
        size_bytes=manifest.size_bytes,
        new_bytes=quotas.new_bytes(model.team, contents),
        author_id=actor.user_id,
        author_name=actor.name,
        address=actor.address[:64],
        sent_from=texts.text("origin", origin, limit=MAX_ORIGIN),
        rate_at=clock.now(),
        bytes_done=sum(contents[sha256] for sha256 in known),
    )
    rows = [
        UploadContent(upload=row, sha256=sha256, size=size, is_known=sha256 in known)
        for sha256, size in contents.items()
    ]
    buffer = buffer_of(row)
    try:
        with transaction.atomic():
            _insert(row, actor, rows)
            buffer.begin(manifest.files, rows)
            kernel.wake(row)
    except BaseException:
        buffer.discard()
        raise
    return row


def _insert(row: Upload, actor: Actor, contents: Sequence[UploadContent]) -> None:
    model = row.model
    # This row is locked, and the quota's: two uploads do not both find room for one.
    versions.hold(model)
    if Upload.objects.live().filter(model=model).count() >= MOST_LIVE:
        raise RunUnderWay(
            _("%(most_live)s uploads to %(model)s are under way already. Complete or cancel one first.")
            % {"most_live": MOST_LIVE, "model": model}
        )
    quotas.hold(model.team)
    if allowance := quotas.allowance_of(model.team):
        allowance.check(row.new_bytes)
    row.save(force_insert=True)
    for content in contents:
        content.upload = row
    UploadContent.objects.bulk_create(contents, batch_size=500)
    detail = {"files": row.file_count, "bytes": row.size_bytes, "origin": row.sent_from}
    audit.record(actor, "upload.begin", subject=row, detail=detail, team_id=model.team_id)


def _same(actor: Actor, model: Model, manifest: FileManifest, known: set[str]) -> Upload | None:
    """An upload of the same files that the actor began, who must still see what it takes for known."""
    if actor.user_id is None:
        return None
    rows = Upload.objects.live().filter(model=model, author=actor.user_id, fingerprint=manifest.digest)
    for row in rows.select_related("model__team", "version__model").order_by("-pk"):
        taken = row.contents.filter(is_known=True).values_list("sha256", flat=True)
        if set(taken) <= known:
            Upload.objects.filter(pk=row.pk).update(touched_at=clock.now())
            return row
    return None


def _announced(listed: Sequence[Mapping[str, Any]], *, may_run: bool) -> FileManifest:
    """A checked manifest. Raises FilesRefused, which names up to 50 of what is wrong."""
    if len(listed) > MAX_FILES:
        raise FilesRefused(
            fields={
                "files": [
                    _("At most %(max_files)s files; these are %(listed)s.")
                    % {"max_files": f"{MAX_FILES:,}", "listed": f"{len(listed):,}"}
                ]
            }
        )
    refusals: list[str] = []
    sizes: dict[str, int] = {}
    found: list[ManifestFile] = []
    for one in listed:
        file = ManifestFile(one["path"], one["size"], one["sha256"])
        try:
            _check(file, sizes, may_run=may_run)
        except FileRefused as refusal:
            refusals.append(str(refusal))
        found.append(file)
    try:
        if not refusals:
            return manifest_of(found)
    except FileRefused as refusal:
        refusals.append(str(refusal))
    raise FilesRefused(fields={"files": refusals[:MAX_REFUSALS]})


def _check(file: ManifestFile, sizes: dict[str, int], *, may_run: bool) -> None:
    check_name(file.path, admits_runnable=may_run)
    check_size(file.path, file.size)
    if why := why_skipped(file.path):
        raise FileRefused(file.path, _("leave it out: %(why)s") % {"why": why})
    if file.size > MOST_BYTES:
        raise FileRefused(
            file.path, _("it is larger than %(most_bytes)s bytes") % {"most_bytes": f"{MOST_BYTES:,}"}
        )
    if sizes.setdefault(file.sha256, file.size) != file.size:
        raise FileRefused(file.path, _("another file has the same sha256 and another size"))
    if (file.size == 0) != (file.sha256 == _EMPTY):
        raise FileRefused(file.path, _("its size and its sha256 do not belong together"))


def take_parts(
    *,
    actor: Actor,
    upload: Upload,
    sha256: str,
    content_range: str,
    body: RequestBody,
    digest: bytes | None = None,
) -> UploadContent:
    """Take parts of a content that follow one another; what has come before is no harm.

    `content_range` is the header of that name, empty for a content of one part; `digest` the body's sha256.
    Raises NotAllowed, UnknownUpload, WrongState, PartRefused, ContentDiffers, StoreFull.
    """
    require(actor, Right.MODELS_WRITE, upload.model.team)
    closed = WrongState(
        _("The upload is %(state)s; nothing is taken any more.")
        % {"state": upload.get_state_display().lower()}
    )
    if not upload.is_live:
        raise closed
    content = UploadContent.objects.filter(upload=upload, sha256=sha256).first()
    if content is None:
        raise UnknownUpload(
            _("The upload has no content with the sha256 %(sha256)s.") % {"sha256": sha256[:64]}
        )
    buffer = buffer_of(upload)
    parts = _parts_named(upload, buffer, content, content_range)
    if upload.state != UploadState.OPEN:
        if not buffer.is_missing(content):
            return content
        raise closed
    try:
        buffer.write(content, parts=parts, body=body, digest=digest)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise StoreFull(needed_bytes=content.size, free_bytes=0) from None
    finally:
        _touch(upload, buffer)
    return content


def _parts_named(upload: Upload, buffer: UploadBuffer, content: UploadContent, content_range: str) -> range:
    """The indexes of the parts. Raises PartRefused."""
    last = max(0, buffer.part_count(content.size) - 1)
    if not content_range:
        if last:
            raise PartRefused(
                _("It comes in %(last)s parts: say which by Content-Range.") % {"last": f"{last + 1:,}"}
            )
        return range(1)
    named = _RANGE.fullmatch(content_range.strip())
    if named is None:
        raise PartRefused(_("Content-Range has the form bytes first-last/size."))
    start, stop, size = int(named[1]), int(named[2]) + 1, int(named[3])
    if size != content.size:
        raise PartRefused(
            _("It has %(size)s bytes as announced, not %(size_2)s.")
            % {"size": f"{content.size:,}", "size_2": f"{size:,}"}
        )
    indexes = range(start // upload.part_bytes, buffer.part_count(min(stop, size)))
    begins = start == indexes.start * upload.part_bytes
    if not (indexes and begins and stop == min(indexes.stop * upload.part_bytes, size)):
        if last:
            sentence = _(
                "Bytes %(start)s-%(stop)s are no parts: the %(parts)s parts have %(part_bytes)s bytes each, "
                "the last one what is left."
            )
        else:
            sentence = _("Bytes %(start)s-%(stop)s are no part: it comes in one, of %(size)s bytes.")
        raise PartRefused(
            sentence
            % {
                "start": start,
                "stop": stop - 1,
                "parts": f"{last + 1:,}",
                "part_bytes": f"{upload.part_bytes:,}",
                "size": f"{size:,}",
            }
        )
    return indexes


def _touch(upload: Upload, buffer: UploadBuffer) -> None:
    """Extend the upload's life, and now and then measure its rate."""
    now = clock.now()
    columns: dict[str, Any] = {"touched_at": now}
    since = upload.rate_at or upload.created_at
    if now - since >= LOOK_EVERY:
        contents = list(upload.contents.all())
        done = sum(one.size for one in contents) - lacking_bytes(contents, buffer.missing(contents))
        # After a pause the mean would tell of the pause.
        is_going_on = now - upload.touched_at < 2 * LOOK_EVERY
        rate = (done - upload.bytes_done) / (now - since).total_seconds() if is_going_on else 0
        columns |= {"rate_at": now, "bytes_done": done, "bytes_per_second": max(0, int(rate))}
    Upload.objects.filter(pk=upload.pk, rate_at=upload.rate_at).update(**columns)


def complete_upload(
    *,
    actor: Actor,
    upload: Upload,
    version: str = "",
    message: str = "",
    lineage: Mapping[str, Any] | None = None,
) -> Version:
    """Make a version of what has come, as an import does; asked again, it is the same version.

    Raises NotAllowed, WrongState while something is missing, InvalidName, Invalid, NameTaken, UnknownModel.
    """
    require(actor, Right.MODELS_WRITE, upload.model.team)
    if made := _made_of(upload):
        return made
    if upload.state != UploadState.OPEN:
        raise WrongState(
            _("The upload is %(state)s. Begin another one.") % {"state": upload.get_state_display().lower()}
        )
    _check_whole(upload)
    source = source_of_upload(upload)
    former = upload.version
    try:
        with transaction.atomic():
            if former is not None and former.state == VersionState.FAILED:
                imports.again(former, actor=actor, source=source)
                return former
            row = imports.described(
                actor=actor, model=upload.model, source=source, message=message, lineage=lineage
            )
            begun = imports.begin(row, actor=actor, version=version)
            is_open = {"state": UploadState.OPEN}
            if not kernel.interrupt(
                upload, to=UploadState.IMPORTING, where=is_open, reason="", version=begun
            ):
                raise WrongState(_("The upload has just changed its state. Look again."))
    except (WrongState, NameTaken):
        # The same may have been asked for twice at once.
        if made := _made_of(uploads.upload_of(upload.model, upload.pk)):
            return made
        raise
    return begun


def _made_of(upload: Upload) -> Version | None:
    """The version that is made of an upload, or was."""
    is_made = upload.state in (UploadState.IMPORTING, UploadState.DONE, UploadState.REFUSED)
    return upload.version if is_made else None


def _check_whole(upload: Upload) -> None:
    """Raises WrongState."""
    buffer = buffer_of(upload)
    if not buffer.exists():
        raise WrongState(_("The received data of the upload is gone. Start another upload."))
    contents = list(upload.contents.all())
    if missing := buffer.missing(contents):
        lacking = lacking_bytes(contents, missing)
        if len(missing) > 1:
            sentence = _(
                "%(lacking)s bytes of %(files)s files have not come yet, such as %(named)s. Send them, then "
                "complete it."
            )
        else:
            sentence = _("%(lacking)s bytes of %(named)s have not come yet. Send them, then complete it.")
        raise WrongState(
            sentence
            % {"lacking": f"{lacking:,}", "files": f"{len(missing):,}", "named": f"{min(missing)[:12]}…"}
        )


def source_of_upload(upload: Upload) -> dict[str, Any]:
    """See `Version.source`."""
    return {
        "kind": "upload",
        "uri": f"upload://{upload.pk}",
        "upload": upload.pk,
        "uploaded_by": upload.author_name,
        "address": upload.address,
        "origin": upload.sent_from,
        "ignore_patterns": [],
    }


def cancel_upload(*, actor: Actor, upload: Upload, reason: str = "") -> Upload:
    """Take no more, and remove what has come. Raises NotAllowed, WrongState."""
    require(actor, Right.MODELS_WRITE, upload.model.team)
    why = texts.reason(reason)
    was = UploadState(upload.state)
    if not UPLOAD_MOVES.allows(was, UploadState.CANCELLED):
        raise WrongState(
            _("The upload is %(state)s; there is nothing to cancel.")
            % {"state": upload.get_state_display().lower()}
        )
    columns: dict[str, Any] = {
        "reason": f"By {actor.name}. {why}".strip(),  # untranslated
        "ended_at": clock.now(),
    }
    with transaction.atomic():
        if not kernel.interrupt(upload, to=UploadState.CANCELLED, **columns):
            raise WrongState(_("The upload has just changed its state. Look again."))
        if upload.version and upload.version.state == VersionState.IMPORTING:
            imports.stop(upload.version, actor=actor, reason=why)
        audit.record(actor, "upload.cancel", subject=upload, reason=why, team_id=upload.model.team_id)
    return Upload.objects.select_related("model__team", "version__model").get(pk=upload.pk)
