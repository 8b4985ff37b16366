"""The one door through which a version changes its state."""

from collections.abc import Callable, Mapping
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Sum
from django.utils import timezone

from common import audit, events
from common.actor import Actor
from model_store import blob_store
from models_registry.events import (
    VersionArchived,
    VersionDeleted,
    VersionFailed,
    VersionImporting,
    VersionReady,
    VersionRefused,
    VersionRestored,
)
from models_registry.models import Model, Version, VersionFile, VersionMove, VersionTag
from models_registry.states import FROZEN, HOLDS_BLOBS, MOVES, VersionState

_TOLD = {
    VersionState.IMPORTING: ("version.import", VersionImporting),
    VersionState.READY: ("version.ready", VersionReady),
    VersionState.ARCHIVED: ("version.archive", VersionArchived),
    VersionState.FAILED: ("version.failed", VersionFailed),
    VersionState.REFUSED: ("version.refused", VersionRefused),
    VersionState.DELETED: ("version.delete", VersionDeleted),
}


def moved(
    version: Version,
    to: VersionState,
    *,
    actor: Actor,
    reason: str = "",
    detail: Mapping[str, Any] | None = None,
    **columns: Any,
) -> tuple[dict[str, Any], Callable[[], None]]:
    """The columns to save on the row, by compare-and-set on its state or fence, and what to write with them.

    Both belong in one transaction. Raises IllegalMove.
    """
    MOVES.check(VersionState(version.state), to)

    def write() -> None:
        if to in (VersionState.FAILED, VersionState.REFUSED):
            # They were the version's hold on blobs.
            VersionFile.objects.filter(version=version.pk).delete()
        if to == VersionState.DELETED:
            _begin_grace(version)
        record(version, to, actor=actor, reason=reason, detail=detail, came_from=version.state)

    return {"state": to, "reason": reason, **columns}, write


def record(
    version: Version,
    to: VersionState,
    *,
    actor: Actor,
    reason: str = "",
    detail: Mapping[str, Any] | None = None,
    came_from: str = "",
) -> None:
    """History, audit and event of a change of state. Inside its transaction."""
    is_back = came_from == VersionState.ARCHIVED and to == VersionState.READY
    action, event = ("version.restore", VersionRestored) if is_back else _TOLD[to]
    if to in FROZEN:
        point_at_newest(version.model_id)
    VersionTag.objects.filter(version=version).update(is_ready=to == VersionState.READY)
    VersionMove.objects.create(
        version=version, from_state=came_from, to_state=to, by=actor.name, reason=reason
    )
    audit.record(actor, action, subject=version, reason=reason, detail=detail, team_id=version.model.team_id)
    events.publish(event(version.pk))


def _begin_grace(version: Version) -> None:
    """Begin the grace time of the blobs that only this version needed."""
    others = VersionFile.objects.filter(sha256=OuterRef("sha256"), version__state__in=HOLDS_BLOBS)
    alone = VersionFile.objects.filter(version=version.pk).exclude(Exists(others.exclude(version=version.pk)))
    blob_store.begin_grace(
        alone.values_list("sha256", "size").distinct().order_by("sha256"), since=timezone.now()
    )


def point_at_newest(model_id: int) -> None:
    """Keep what the model's row tells of its ready versions. Inside the transaction that changed them."""
    rows = Model.objects.filter(pk=model_id)
    # Locks the row first: a second statement sees what another transaction has made ready meanwhile.
    rows.update(latest=F("latest"))
    ready = Version.objects.ready().filter(model=model_id)
    newest = ready.only("architecture", "parameters", "facts", "ready_at").order_by("-number").first()
    totals = ready.aggregate(versions=Count("pk"), bytes=Sum("size_bytes"))
    rows.update(
        latest=newest,
        architecture=newest.architecture if newest else "",
        weights=(newest.facts or {}).get("format", "") if newest else "",
        parameters=newest.parameters if newest else None,
        newest_at=newest.ready_at if newest else None,
        ready_versions=totals["versions"],
        ready_bytes=totals["bytes"] or 0,
    )
