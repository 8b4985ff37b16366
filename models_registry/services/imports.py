"""Imports of versions: asked for, paused, resumed, retried, cancelled."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import F, Max
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from common import texts
from common.actor import Actor
from common.errors import Invalid, NameTaken, WrongState
from common.jobs.rows import NEVER_LAUNCHED
from common.reconcile import kernel
from models_registry import names, transitions
from models_registry.errors import UnknownModel, UnknownVersion
from models_registry.importing.sources import open_upload_of, readable_source, source_named
from models_registry.models import Model, Version
from models_registry.selectors import catalogue, versions
from models_registry.services import checks
from models_registry.services.versions import compare_and_set, hold
from models_registry.states import UploadState, VersionState

MAX_MESSAGE = 4_000


_UNTOUCHED: dict[str, Any] = {
    **NEVER_LAUNCHED, "scan": {}, "size_bytes": 0, "file_count": 0, "bytes_done": 0,
    "bytes_total": 0, "files_done": 0, "files_total": 0, "bytes_per_second": 0, "is_paused": False,
}  # fmt: skip


def import_version(
    *,
    actor: Actor,
    model: Model,
    source: str,
    version: str = "",
    message: str = "",
    lineage: Mapping[str, Any] | None = None,
    ignore_patterns: Sequence[str] = (),
) -> Version:
    """Begin to import a directory or a repository as the model's next version; it goes on after the answer.

    `source` is an absolute path or a `file:///` address inside an import root, or a repository of the
    default hub, `hf://org/name@revision`. `version` names it; `v7` asks for that number.
    `lineage["parent"]` names the version that it was made from: `v2` of the same model, or `model:v2`.
    Raises NotAllowed, SourceNotAllowed, InvalidName, Invalid, NameTaken, UnknownModel.
    """
    require(actor, Right.MODELS_WRITE, model.team)
    patterns = checks.patterns("ignore_patterns", ignore_patterns)
    told = source_named(model, source, ignore_patterns=patterns)
    row = described(actor=actor, model=model, source=told, message=message, lineage=lineage)
    return begin(row, actor=actor, version=version)


def described(
    *, actor: Actor, model: Model, source: dict[str, Any], message: str, lineage: Mapping[str, Any] | None
) -> Version:
    """A version that is not stored yet, with what its author says of it. Raises Invalid."""
    told = checks.lineage(lineage)
    parent = _parent(actor, model, told.pop("parent", None))
    return Version(
        model=model,
        source=source,
        message=texts.text("message", message, limit=MAX_MESSAGE),
        author_id=actor.user_id,
        author_name=actor.name,
        lineage=told,
        parent=parent,
    )


def begin(row: Version, *, actor: Actor, version: str = "") -> Version:
    """Number a new version and wake it. Raises InvalidName, NameTaken, UnknownModel."""
    model = row.model
    with transaction.atomic():
        # Numbers are given out one at a time.
        hold(model)
        row.number, row.name = _next_name(model, version.strip())
        row.save(force_insert=True)
        transitions.record(
            row, VersionState.IMPORTING, actor=actor, reason=row.message, detail={"source": row.source["uri"]}
        )
        kernel.wake(row)
    return row


def _next_name(model: Model, wanted: str) -> tuple[int, str]:
    taken = Version.objects.filter(model=model)
    last = taken.aggregate(last=Max("number"))["last"] or 0
    if not wanted:
        return last + 1, f"v{last + 1}"
    names.check_version_name(wanted)
    if taken.filter(name=wanted).exists():
        raise NameTaken(
            _("%(model)s has a version %(wanted)s already. Versions never change; choose a new name.")
            % {"model": model, "wanted": wanted}
        )
    numbered = names.NUMBER.fullmatch(wanted)
    if numbered is None:
        return last + 1, wanted
    if int(numbered[1]) <= last:
        raise NameTaken(
            _("The last version of %(model)s has number %(last)s; numbers only go up.")
            % {"model": model, "last": last}
        )
    return int(numbered[1]), wanted


def _parent(actor: Actor, model: Model, named: Any) -> Version | None:
    if named is None:
        return None
    if not isinstance(named, str):
        raise Invalid(fields={"lineage": [_("`parent` names a version: `v2`, or `model:v2`.")]})
    model_name, colon, reference = named.rpartition(":")
    try:
        of_model = catalogue.model_named(actor, model_name) if colon else model
        return versions.version_named(of_model, reference)
    except (UnknownModel, UnknownVersion) as error:
        raise Invalid(fields={"lineage": [_("parent: %(error)s") % {"error": error}]}) from None


def retry_import(*, actor: Actor, version: Version, reason: str = "") -> Version:
    """Import the same source again under the same name; a paused import goes on with what it has.

    Raises NotAllowed, SourceNotAllowed, WrongState.
    """
    require(actor, Right.MODELS_WRITE, version.model.team)
    why = texts.reason(reason)
    source = readable_source(version)
    if version.state == VersionState.IMPORTING and version.is_paused:
        resume(version)
        version.refresh_from_db()
        return version
    again(version, actor=actor, source=source, reason=why)
    return version


def again(version: Version, *, actor: Actor, source: dict[str, Any], reason: str = "") -> None:
    """Import a failed, refused or stuck version again. Raises WrongState, UnknownModel."""
    if version.state == VersionState.IMPORTING and version.stuck_at is not None:
        stop(version, actor=actor, reason=reason or "Begun again.")
        version.refresh_from_db()
    if version.state not in (VersionState.FAILED, VersionState.REFUSED):
        raise WrongState(
            _("%(version)s is %(state)s; only a failed or refused import can be retried.")
            % {"version": version, "state": version.get_state_display().lower()}
        )
    columns, write = transitions.moved(
        version, VersionState.IMPORTING, actor=actor, source=source, is_held=True, **_UNTOUCHED
    )
    with transaction.atomic():
        hold(version.model)
        if source["kind"] == "upload":
            _take_up(source)
        compare_and_set(version, columns | {"attempt": F("attempt") + 1})
        write()
    version.refresh_from_db()


def _take_up(source: Mapping[str, Any]) -> None:
    """Let the upload follow its version again. Raises WrongState."""
    upload = open_upload_of(source).first()
    if upload is None or not kernel.interrupt(upload, to=UploadState.IMPORTING, reason=""):
        raise WrongState(_("The upload has just changed its state. Look again."))


def pause(version: Version) -> None:
    """Let no process work on an import; what it holds is kept. Raises WrongState."""
    compare_and_set(version, {"is_paused": True, "bytes_per_second": 0})


def resume(version: Version) -> None:
    """Let a paused import go on with what it holds. Raises WrongState."""
    fresh = {"is_paused": False, "reason": "", "scan": {}, **NEVER_LAUNCHED}
    compare_and_set(version, {**fresh, "attempt": F("attempt") + 1})


def cancel_import(*, actor: Actor, version: Version, reason: str = "") -> Version:
    """Stop an import; what it has copied is removed. Raises NotAllowed, WrongState."""
    require(actor, Right.MODELS_WRITE, version.model.team)
    stop(version, actor=actor, reason=texts.reason(reason))
    version.refresh_from_db()
    return version


def stop(version: Version, *, actor: Actor, reason: str) -> None:
    """Move an import to failed; the reconciler removes what it holds. Raises WrongState."""
    if version.state != VersionState.IMPORTING:
        raise WrongState(
            _("%(version)s is %(state)s; there is no import to cancel.")
            % {"version": version, "state": version.get_state_display().lower()}
        )
    sentence = f"Cancelled by {actor.name}." + (f" {reason}" if reason else "")  # untranslated
    columns, write = transitions.moved(
        version,
        VersionState.FAILED,
        actor=actor,
        reason=sentence,
        is_held=True,
        size_bytes=0,
        file_count=0,
        scan={},
    )
    with transaction.atomic():
        compare_and_set(version, columns)
        write()
