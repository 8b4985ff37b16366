"""Sources on hubs, and the syncs of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from common import audit, clock, texts
from common.actor import Actor
from common.errors import Invalid, SlipwayError, WrongState
from common.reconcile import kernel
from hubs.auto_release import auto_release
from hubs.errors import SourceTaken
from hubs.import_source import HUB_VARIABLE, PURPOSE, check_endpoint
from hubs.models import FORGOTTEN, HubSource, HubSync
from hubs.services import checks
from hubs.services.transfers import Transfers
from hubs.states import DEFAULT_BRANCHES, SYNC_STATES, HubKind, SyncFailureCause, TransferState
from models_registry import names
from models_registry.errors import InUse, SourceNotAllowed
from models_registry.models import Model, Version
from models_registry.services import checks as registry
from models_registry.services import imports, versions
from models_registry.states import VersionState

OF_THE_TOKEN = (SyncFailureCause.BAD_TOKEN, SyncFailureCause.NO_REPOSITORY, SyncFailureCause.GATED)
"""What another token may mend."""
SHORTEST_EVERY_SECONDS, LONGEST_EVERY_SECONDS = 300, 90 * 86_400


def create_hub_source(
    *,
    actor: Actor,
    model: Model,
    repo_id: str,
    revision: str = "",
    endpoint: str = "",
    kind: str = HubKind.HUGGINGFACE,
    token: str = "",
    allow_patterns: Sequence[str] = (),
    ignore_patterns: Sequence[str] = (),
    every: int | None = None,
    release_to: str = "",
    release_plan: str = "",
) -> HubSource:
    """Follow a repository; with `every` (seconds) at once and then so often.

    `kind` is the protocol that the endpoint speaks; its default branch is followed unless a revision is
    given.
    New versions are registered, and with `release_to` (a service) released as well, in the actor's name.
    Raises NotAllowed, Invalid, SourceNotAllowed (the endpoint), SourceTaken, UnknownModel.
    """
    require(actor, Right.MODELS_WRITE, model.team)
    protocol = _kind(kind)
    source = HubSource(
        model=model,
        created_by_name=actor.name,
        endpoint=_endpoint(endpoint),
        kind=protocol,
        repo_id=checks.repo_id(repo_id),
        ref=_ref(revision or DEFAULT_BRANCHES[protocol]),
        sealed_token=checks.sealed_token(token, purpose=PURPOSE),
        allow_patterns=registry.patterns("allow_patterns", allow_patterns),
        ignore_patterns=registry.patterns("ignore_patterns", ignore_patterns),
        every_seconds=_every(every),
        due_at=clock.now() if every else None,
        **_auto_release(actor, model, release_to, release_plan),
    )
    try:
        with transaction.atomic():
            versions.hold(model)
            source.save(force_insert=True)
            audit.record(
                actor, "hub-source.create", subject=source, detail=_told(source), team_id=model.team_id
            )
            kernel.wake(source)
    except IntegrityError:
        raise SourceTaken(
            _("%(model)s follows %(source)s on %(endpoint)s already.")
            % {"model": model, "source": source, "endpoint": source.endpoint}
        ) from None
    return source


def change_hub_source(
    *, actor: Actor, source: HubSource, expected: int | None = None, **given: Any
) -> HubSource:
    """Change what is given, in the words of `create_hub_source`; an empty token removes the stored one.

    Releases are begun in the name of the actor who changes where to or by which plan. Raises NotAllowed,
    Invalid, SourceTaken, Stale.
    """
    require(actor, Right.MODELS_WRITE, source.model.team)
    changes: dict[str, Any] = {}
    if "revision" in given:
        changes["ref"] = _ref(given["revision"])
    if "token" in given:
        changes["sealed_token"] = checks.sealed_token(given["token"], purpose=PURPOSE)
    for field in ("allow_patterns", "ignore_patterns"):
        if field in given:
            changes[field] = registry.patterns(field, given[field])
    to, plan = (given.get(field, getattr(source, field)) for field in ("release_to", "release_plan"))
    if (to, plan) != (source.release_to, source.release_plan):
        changes |= _auto_release(actor, source.model, to, plan)
    if "every" in given and _every(given["every"]) != source.every_seconds:
        changes["every_seconds"] = given["every"]
        if given["every"]:
            changes |= {"due_at": clock.now(), "is_noticed": False}
        elif not source.is_noticed:
            changes["due_at"] = None
    try:
        with transaction.atomic():
            source.change(expected=expected, **changes)
            audit.record(
                actor,
                "hub-source.change",
                subject=source,
                detail=_told(source) | {"changed": sorted(given)},
                team_id=source.model.team_id,
            )
            # Wakes a source that is stuck, too.
            kernel.interrupt(source)
            if given.get("token"):
                _go_on_with_token(source, actor=actor)
    except IntegrityError:
        raise SourceTaken(_("%(model)s follows that revision already.") % {"model": source.model}) from None
    return source


def delete_hub_source(
    *, actor: Actor, source: HubSource, reason: str = "", expected: int | None = None
) -> None:
    """Follow it no longer; its token is forgotten, its versions stay. Raises NotAllowed, InUse, Stale."""
    require(actor, Right.MODELS_WRITE, source.model.team)
    why = texts.reason(reason)
    with transaction.atomic():
        # Locks the row, as the beginning of a sync does.
        source.change(expected=expected, deleted_at=clock.now(), **FORGOTTEN)
        if HubSync.objects.open().filter(source=source).exists():
            raise InUse(_("%(source)s is being synced. Cancel that first.") % {"source": source})
        # What is stuck waits for nobody any more.
        kernel.wake(source)
        audit.record(actor, "hub-source.delete", subject=source, reason=why, team_id=source.model.team_id)


def forget_hub_sources(model_id: int) -> None:
    """Nothing of a model that is deleted is followed. Inside the transaction that deletes it."""
    for source in HubSource.objects.live().filter(model=model_id):
        kernel.wake(source, deleted_at=clock.now(), **FORGOTTEN)


def start_sync(*, actor: Actor, source: HubSource) -> HubSync:
    """Look at the repository now; it goes on after the answer. Raises NotAllowed, SourceTaken, WrongState."""
    require(actor, Right.MODELS_WRITE, source.model.team)
    check_endpoint(source.endpoint)
    with transaction.atomic():
        kernel.try_again(source, actor=actor, reason="")
        return begin_sync(source, actor=actor)


def begin_sync(source: HubSource, *, actor: Actor, is_scheduled: bool = False) -> HubSync:
    """A sync of the source, awake. Raises SourceTaken while another one is open, WrongState."""
    sync = HubSync(source=source, is_scheduled=is_scheduled, author_id=actor.user_id, author_name=actor.name)
    return SYNCS.begin(sync, actor=actor)


class _Syncs(Transfers[HubSync]):
    """The version that a sync imports pauses, goes on and is stopped with it."""

    kind = HubSync
    name = "hub-sync"
    right = Right.MODELS_WRITE
    states = SYNC_STATES
    begins = TransferState.RESOLVING
    moves_files = TransferState.FETCHING

    def hold(self, transfer: HubSync) -> None:
        """See `delete_hub_source`."""
        if not HubSource.objects.live().filter(pk=transfer.source_id).update(deleted_at=None):
            raise WrongState(_("%(source)s is no longer followed.") % {"source": transfer.source})

    def taken(self, transfer: HubSync) -> SourceTaken:
        return SourceTaken(_("%(source)s is being synced already.") % {"source": transfer.source})

    def check_endpoint(self, transfer: HubSync) -> None:
        check_endpoint(transfer.source.endpoint)

    def columns(self, wish: str) -> Mapping[str, Any]:
        return {"cause": ""} if wish in ("resume", "retry") else {}

    def begun_again(self, transfer: HubSync, actor: Actor, **given: Any) -> Mapping[str, Any]:
        if transfer.source.deleted_at:
            raise WrongState(_("%(source)s is no longer followed.") % {"source": transfer.source})
        by = {"is_scheduled": False, "author_id": actor.user_id, "author_name": actor.name}
        return {**by, "version": None, "commit": ""}

    def detail(self, transfer: HubSync) -> dict[str, Any]:
        return {"source": str(transfer.source), "endpoint": transfer.source.endpoint}

    def along(self, transfer: HubSync, wish: str, *, actor: Actor, reason: str) -> None:
        version = transfer.version
        if wish == "pause" and version:
            imports.pause(version)
        elif wish == "resume" and version:
            imports.resume(version)
        elif wish == "cancel" and version and version.state == VersionState.IMPORTING:
            imports.stop(version, actor=actor, reason=reason)


SYNCS = _Syncs()


def go_on(sync: HubSync, *, actor: Actor, reason: str = "") -> None:
    """Resume a sync for its schedule or a new token, inside the caller's transaction. Raises WrongState."""
    SYNCS.move(sync, "resume", actor=actor, reason=reason)


def _go_on_with_token(source: HubSource, *, actor: Actor) -> None:
    """Resume the sync that the old token interrupted, if there is one."""
    refused = HubSync.objects.filter(source=source, state=TransferState.INTERRUPTED, cause__in=OF_THE_TOKEN)
    for sync in refused.select_related("source__model", "version__model"):
        go_on(sync, actor=actor, reason="The source has a new token.")


def _told(source: HubSource) -> dict[str, Any]:
    """Return the source's fields for the audit record, without the token."""
    fields = ("endpoint", "kind", "repo_id", "ref", "allow_patterns", "ignore_patterns", "every_seconds",
              "release_to", "release_plan")  # fmt: skip
    return {**{field: getattr(source, field) for field in fields}, "has_token": source.has_token}


def trigger_release(source: HubSource, version: Version) -> str:
    """Release a version that has just become ready, if its source asks for that; what came of it, in words.

    Inside the caller's transaction.
    """
    if not source.release_to:
        return ""
    person = source.released_by
    if person is None:
        return f"It was not released to {source.release_to}: whoever asked for that is gone."  # untranslated
    try:
        with transaction.atomic():
            begun = auto_release().release(
                Actor(name=person.username, user_id=person.pk, via="system"),
                version,
                service=source.release_to,
                plan=source.release_plan,
                reason=f"New commit {version.source['commit'][:12]} of {source}.",  # untranslated
            )
    except SlipwayError as error:
        return f"It was not released to {source.release_to}: {error}"  # untranslated
    return f"It goes on by {begun}."  # untranslated


def _auto_release(actor: Actor, model: Model, service: str, plan: str) -> dict[str, Any]:
    to, by = service.strip(), plan.strip()
    if not to:
        return {"release_to": "", "release_plan": "", "released_by_id": None}
    auto_release().check(actor, model, service=to, plan=by)
    return {"release_to": to, "release_plan": by, "released_by_id": actor.user_id}


def _endpoint(given: str) -> str:
    if not settings.SLIPWAY_HUB_ENDPOINTS:
        raise Invalid(
            fields={
                "endpoint": [
                    _("No hub is configured: %(hub_variable)s is empty.") % {"hub_variable": HUB_VARIABLE}
                ]
            }
        )
    try:
        return check_endpoint(given) if given.strip() else str(settings.SLIPWAY_HUB_ENDPOINTS[0])
    except SourceNotAllowed as error:
        raise Invalid(fields={"endpoint": error.fields["source"]}) from None


def _kind(given: str) -> HubKind:
    if given not in HubKind:
        raise Invalid(fields={"kind": [_("A hub speaks %(HubKind)s.") % {"HubKind": " or ".join(HubKind)}]})
    return HubKind(given)


def _ref(given: str) -> str:
    if not names.REVISION.fullmatch(given.strip()):
        raise Invalid(fields={"revision": [_("Name a branch, a tag or a commit, such as main.")]})
    return given.strip()


def _every(seconds: int | None) -> int | None:
    if seconds is not None and not SHORTEST_EVERY_SECONDS <= seconds <= LONGEST_EVERY_SECONDS:
        raise Invalid(
            fields={
                "every": [
                    _("Between %(shortest_every_seconds)s and %(longest_every_seconds)s seconds, or none.")
                    % {
                        "shortest_every_seconds": SHORTEST_EVERY_SECONDS,
                        "longest_every_seconds": f"{LONGEST_EVERY_SECONDS:,}",
                    }
                ]
            }
        )
    return seconds
