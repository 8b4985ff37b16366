"""Exports: versions that are published elsewhere."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.db.models import F
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from common import texts
from common.actor import Actor
from common.errors import Invalid, WrongState
from common.jobs.rows import NEVER_LAUNCHED
from common.sealed import unseal
from hubs.export_targets import EXPORT_VARIABLE, check_export_endpoint
from hubs.models import Export
from hubs.services import checks
from hubs.services.transfers import Transfers
from hubs.states import EXPORT_STATES, ExportKind, TransferState
from model_store.errors import RunUnderWay
from models_registry import names
from models_registry.errors import SourceNotAllowed
from models_registry.models import Version, VersionFile
from models_registry.patterns import matching
from models_registry.selectors import versions
from models_registry.services import checks as registry
from models_registry.states import VersionState

PURPOSE = "export"
"""Of `common.sealed`, for tokens."""
FORGOTTEN: dict[str, Any] = {"sealed_token": ""}
"""No secret outlives its use."""


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

    Files of the repository that the version does not have stay there. With `create`, a repository, branch or
    model that is missing is made. Raises NotAllowed, Invalid, WrongState, RunUnderWay while another export
    goes there.
    """
    require(actor, Right.MODELS_EXPORT, version.model.team)
    why = texts.demanded_reason(reason, asks=_("Say why it is published."))
    _check_ready(version)
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
    return EXPORTS.begin(export, actor=actor, reason=why)


class _Exports(Transfers[Export]):
    """A retry takes another `token`; a pause leaves with the hub, for a while, what has arrived."""

    kind = Export
    name = "export"
    right = Right.MODELS_EXPORT
    states = EXPORT_STATES
    begins = moves_files = TransferState.SENDING

    def taken(self, transfer: Export) -> RunUnderWay:
        return RunUnderWay(
            _("Another export goes to %(target)s on %(endpoint)s already.")
            % {"target": transfer.target, "endpoint": transfer.endpoint}
        )

    def check_endpoint(self, transfer: Export) -> None:
        check_export_endpoint(transfer.endpoint)

    def columns(self, wish: str) -> Mapping[str, Any]:
        if wish in ("resume", "retry"):
            return {**NEVER_LAUNCHED, "is_held": True, "bytes_per_second": 0, "attempt": F("attempt") + 1}
        return {"bytes_per_second": 0, **(FORGOTTEN if wish == "cancel" else {})}

    def begun_again(self, transfer: Export, actor: Actor, **given: Any) -> Mapping[str, Any]:
        _check_ready(transfer.version)
        token = checks.sealed_token(given.get("token", ""), purpose=PURPOSE)
        return {"bytes_done": 0, "files_done": 0, **({"sealed_token": token} if token else {})}

    def detail(self, transfer: Export) -> dict[str, Any]:
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
        version = transfer.version
        named = {"version": str(version), "digest": version.digest, "commit": transfer.commit}
        return {**named, **{field: getattr(transfer, field) for field in fields}}


EXPORTS = _Exports()


def token_of(export: Export) -> str:
    """Empty: it has none. Raises CannotUnseal."""
    return unseal(export.sealed_token, purpose=PURPOSE) if export.sealed_token else ""


def _check_ready(version: Version) -> None:
    if version.state != VersionState.READY:
        raise WrongState(
            _("%(version)s is %(state)s; only a ready version is exported.")
            % {"version": version, "state": version.get_state_display().lower()}
        )


def _endpoint(given: str) -> str:
    if not settings.SLIPWAY_EXPORT_ENDPOINTS:
        raise Invalid(
            fields={
                "endpoint": [
                    _(
                        "No export destinations are configured: the operator of this server sets "
                        "%(export_variable)s."
                    )
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
