"""Exports: versions that are published elsewhere."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from common import audit, texts
from common.actor import Actor
from common.errors import Invalid
from common.jobs.rows import NEVER_LAUNCHED
from common.reconcile import kernel
from common.sealed import unseal
from hubs.export_targets import EXPORT_VARIABLE, check_export_endpoint
from hubs.models import Export
from hubs.services import checks
from hubs.states import EXPORT_MOVES, ExportKind, ExportState
from model_store.errors import Busy
from models_registry import names
from models_registry.errors import SourceNotAllowed, WrongState
from models_registry.models import Version, VersionFile
from models_registry.patterns import matching
from models_registry.selectors import versions
from models_registry.services import checks as registry
from models_registry.states import VersionState

PURPOSE = "export"
"""Of `common.sealed`, for tokens."""
FORGOTTEN: dict[str, Any] = {"sealed_token": ""}
"""No secret outlives its use."""
_BEGUN_AGAIN: dict[str, Any] = {**NEVER_LAUNCHED, "is_held": True, "bytes_per_second": 0}


def start_export(
    *,
    actor: Actor,
    version: Version,
    repo_id: str,
    reason: str,
    branch: str = "",
    kind: str = ExportKind.HUGGINGFACE,
    endpoint: str = "",
    token: str = "",
    create: bool = False,
    private: bool = True,
    allow_patterns: Sequence[str] = (),
    ignore_patterns: Sequence[str] = (),
) -> Export:
    """Publish a ready version as one commit of a repository, or as a version of a model on another Slipway,
    whose name `repo_id` is then; it goes on after the answer.

    Files of the repository that the version does not have stay there. With `create`, a repository, branch
    or model that is missing is made. Raises NotAllowed, Invalid, WrongState, Busy while another export goes
    there.
    """
    require(actor, Right.MODELS_EXPORT, version.model.team)
    why = texts.demanded_reason(reason, asks=_("Say why it is published."))
    if version.state != VersionState.READY:
        raise WrongState(
            _("%(version)s is %(state)s; only a ready version is exported.")
            % {"version": version, "state": version.get_state_display().lower()}
        )
    if versions.damages(version):
        raise WrongState(
            _("Files of %(version)s are damaged or missing. Repair the store first.") % {"version": version}
        )
    export = Export(
        version=version,
        endpoint=_endpoint(endpoint),
        **_place(kind, repo_id, branch),
        sealed_token=checks.sealed_token(token, purpose=PURPOSE),
        creates=create,
        is_private=private,
        allow_patterns=registry.patterns("allow_patterns", allow_patterns),
        ignore_patterns=registry.patterns("ignore_patterns", ignore_patterns),
        why=why,
        author_id=actor.user_id,
        author_name=actor.name,
    )
    sizes = dict(VersionFile.objects.filter(version=version).values_list("path", "size"))
    wanted = matching(sizes, allow=export.allow_patterns, ignore=export.ignore_patterns)
    if not wanted:
        raise Invalid(
            fields={
                "allow_patterns": [_("The patterns leave no file of %(version)s.") % {"version": version}]
            }
        )
    export.files_total, export.bytes_total = len(wanted), sum(sizes[path] for path in wanted)
    try:
        with transaction.atomic():
            export.save(force_insert=True)
            _record(actor, export, "start", reason=why)
            kernel.wake(export)
    except IntegrityError:
        raise Busy(
            _("Another export goes to %(target)s on %(endpoint)s already.")
            % {"target": export.target, "endpoint": export.endpoint}
        ) from None
    return export


def pause_export(*, actor: Actor, export: Export, reason: str = "") -> Export:
    """Stop sending; what the hub has got it keeps for a while. Raises NotAllowed, WrongState."""
    return _wish(actor, export, ExportState.PAUSED, "pause", reason, bytes_per_second=0)


def resume_export(*, actor: Actor, export: Export, reason: str = "") -> Export:
    """Go on after a pause or an interruption. Raises NotAllowed, WrongState, SourceNotAllowed."""
    require(actor, Right.MODELS_EXPORT, export.version.model.team)
    if export.state not in (ExportState.PAUSED, ExportState.INTERRUPTED):
        raise WrongState(
            _("The export is %(state)s; only a paused or interrupted one can go on.")
            % {"state": export.get_state_display().lower()}
        )
    check_export_endpoint(export.endpoint)
    again = {**_BEGUN_AGAIN, "attempt": F("attempt") + 1}
    return _wish(actor, export, ExportState.SENDING, "resume", reason, **again)


def cancel_export(*, actor: Actor, export: Export, reason: str = "") -> Export:
    """Stop it for good. Raises NotAllowed, WrongState."""
    ended = {"ended_at": timezone.now(), **FORGOTTEN}
    return _wish(actor, export, ExportState.CANCELLED, "cancel", reason, bytes_per_second=0, **ended)


def retry_export(*, actor: Actor, export: Export, token: str = "", reason: str = "") -> Export:
    """Begin a failed export again, with another token if one is given.

    Raises NotAllowed, Invalid, WrongState, SourceNotAllowed, Busy.
    """
    require(actor, Right.MODELS_EXPORT, export.version.model.team)
    if export.state != ExportState.FAILED:
        raise WrongState(
            _("The export is %(state)s; only a failed one can be tried again.")
            % {"state": export.get_state_display().lower()}
        )
    if export.version.state != VersionState.READY:
        raise WrongState(
            _("%(version)s is %(state)s; only a ready version is exported.")
            % {"version": export.version, "state": export.version.get_state_display().lower()}
        )
    check_export_endpoint(export.endpoint)
    new = {"sealed_token": checks.sealed_token(token, purpose=PURPOSE)} if token.strip() else {}
    again = {**_BEGUN_AGAIN, **new, "attempt": F("attempt") + 1}
    try:
        return _wish(
            actor,
            export,
            ExportState.SENDING,
            "retry",
            reason,
            began_at=timezone.now(),
            ended_at=None,
            bytes_done=0,
            files_done=0,
            **again,
        )
    except IntegrityError:
        raise Busy(
            _("Another export goes to %(target)s on %(endpoint)s already.")
            % {"target": export.target, "endpoint": export.endpoint}
        ) from None


def token_of(export: Export) -> str:
    """Empty: it has none. Raises CannotUnseal."""
    return unseal(export.sealed_token, purpose=PURPOSE) if export.sealed_token else ""


def _wish(actor: Actor, export: Export, to: ExportState, wish: str, reason: str, **columns: Any) -> Export:
    """Take the row away from whoever works on it, if it still is what was read."""
    require(actor, Right.MODELS_EXPORT, export.version.model.team)
    why = texts.reason(reason)
    if not EXPORT_MOVES.allows(ExportState(export.state), to):
        raise WrongState(
            _("The export is %(state)s; this cannot be done now.")
            % {"state": export.get_state_display().lower()}
        )
    sentence = "" if to == ExportState.SENDING else f"By {actor.name}. {why}".strip()  # untranslated
    with transaction.atomic():
        where = {"state": export.state}
        if not kernel.interrupt(export, where=where, state=to, reason=sentence, **columns):
            raise WrongState(_("The export has just changed its state. Look again."))
        _record(actor, export, wish, reason=why)
    return Export.objects.select_related("version__model__team").get(pk=export.pk)


def _record(actor: Actor, export: Export, wish: str, *, reason: str = "") -> None:
    audit.record(
        actor,
        f"export.{wish}",
        subject=export,
        reason=reason,
        detail=told(export),
        team_id=export.version.model.team_id,
    )


def told(export: Export) -> dict[str, Any]:
    """For the audit: what goes where, without the token."""
    fields = (
        "kind",
        "endpoint",
        "repo_id",
        "branch",
        "creates",
        "is_private",
        "allow_patterns",
        "ignore_patterns",
    )
    named = {"version": str(export.version), "digest": export.version.digest, "commit": export.commit}
    return {**named, **{field: getattr(export, field) for field in fields}}


def _endpoint(given: str) -> str:
    if not settings.SLIPWAY_EXPORT_ENDPOINTS:
        raise Invalid(
            fields={
                "endpoint": [
                    _("This server exports to no hub: %(export_variable)s is empty. Its operator names some.")
                    % {"export_variable": EXPORT_VARIABLE}
                ]
            }
        )
    try:
        return check_export_endpoint(given) if given.strip() else str(settings.SLIPWAY_EXPORT_ENDPOINTS[0])
    except SourceNotAllowed as error:
        raise Invalid(fields={"endpoint": error.fields["source"]}) from None


def _place(kind: str, repo_id: str, branch: str) -> dict[str, str]:
    if kind not in ExportKind:
        raise Invalid(fields={"kind": [_("One of %(ExportKind)s.") % {"ExportKind": ", ".join(ExportKind)}]})
    if kind == ExportKind.SLIPWAY:
        try:
            model = names.check_model_name(repo_id.strip())
        except Invalid as error:
            raise Invalid(fields={"repo_id": next(iter(error.fields.values()))}) from None
        return {"kind": kind, "repo_id": model, "branch": ""}
    wanted = branch.strip() or "main"
    if not names.REVISION.fullmatch(wanted):
        raise Invalid(fields={"branch": [_("Name a branch, such as main.")]})
    repository = checks.repo_id(repo_id)
    if "/" not in repository:
        raise Invalid(fields={"repo_id": [_("Name the organization or person, too, such as acme/tiny.")]})
    return {"kind": kind, "repo_id": repository, "branch": wanted}
