"""What webhooks tell: the events of the system by the names that receivers know, with REST's documents.

An event is noted as a few ids inside its transaction. What is sent is read a moment later, after the commit:
the document shows how things stand then.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from django.utils.translation import gettext_noop as _
from rest_framework.serializers import BaseSerializer

from accounts.models import WebhookEndpoint
from accounts.services import announce
from clusters.api.serializers import DeploymentSerializer
from clusters.events import (
    DeploymentDegraded,
    DeploymentFailing,
    DeploymentReady,
    DeploymentRemoved,
    WorkerLost,
    WorkerStuck,
)
from clusters.models import Deployment, Worker
from common.disk_watch import DiskFilled, DiskRanLow, DiskRecovered
from common.models import AuditRecord
from common.reconcile import StuckRow
from common.webhooks.catalogue import EventType, Told, declare
from models_registry import selectors as registry
from models_registry.api.serializers import AliasMoveSerializer, VersionSerializer
from models_registry.events import (
    AliasMoved,
    VersionArchived,
    VersionDeleted,
    VersionExported,
    VersionFailed,
    VersionReady,
    VersionRefused,
    VersionRestored,
)
from models_registry.models import AliasMove, Version
from releases.api.serializers import ReleaseSerializer
from releases.events import (
    ApprovalAsked,
    PolicyBypassed,
    PolicyLowered,
    ReleaseEnded,
    ReleaseMoved,
    RollbackStarted,
)
from releases.models import Release
from releases.succession import with_succession

Ids = Mapping[str, Any]

ANNOUNCED: Mapping[type[Any], Callable[[Any], None]] = {
    ReleaseMoved: lambda event: announce("release.moved", release_id=event.release_id),
    ApprovalAsked: lambda event: announce(
        "release.waiting_approval", release_id=event.release_id, step_index=event.step_index
    ),
    ReleaseEnded: lambda event: announce(
        "release.ended", release_id=event.release_id, state=str(event.state)
    ),
    RollbackStarted: lambda event: announce("release.rollback", release_id=event.release_id),
    PolicyBypassed: lambda event: announce("release.bypassed", release_id=event.release_id),
    PolicyLowered: lambda event: announce("policy.lowered", audit_seq=event.audit_seq),
    VersionReady: lambda event: announce("version.ready", version_id=event.version_id),
    VersionArchived: lambda event: announce("version.archived", version_id=event.version_id),
    VersionRestored: lambda event: announce("version.restored", version_id=event.version_id),
    VersionFailed: lambda event: announce("version.failed", version_id=event.version_id),
    VersionRefused: lambda event: announce("version.refused", version_id=event.version_id),
    VersionDeleted: lambda event: announce("version.deleted", version_id=event.version_id),
    VersionExported: lambda event: announce(
        "version.exported", version_id=event.version_id, export_id=event.export_id
    ),
    AliasMoved: lambda event: announce("alias.moved", move_id=event.move_id),
    DeploymentReady: lambda event: announce("deployment.ready", deployment_id=event.deployment_id),
    DeploymentDegraded: lambda event: announce("deployment.degraded", deployment_id=event.deployment_id),
    DeploymentFailing: lambda event: announce("deployment.failing", deployment_id=event.deployment_id),
    DeploymentRemoved: lambda event: announce("deployment.removed", deployment_id=event.deployment_id),
    WorkerLost: lambda event: announce("worker.lost", worker_id=event.worker_id),
    WorkerStuck: lambda event: announce("worker.stuck", worker_id=event.worker_id),
    StuckRow: lambda event: announce("work.stuck", kind=event.kind, id=event.id),
    DiskRanLow: lambda event: announce("disk.low", **asdict(event)),
    DiskFilled: lambda event: announce("disk.full", **asdict(event)),
    DiskRecovered: lambda event: announce("disk.recovered", **asdict(event)),
}
"""Witnesses: each notes the event for the webhooks, in the transaction where it happens."""


def declare_all() -> None:
    for name, says, tell in (
        ("release.moved", _("A release changed its state, step or phase."), _release),
        ("release.waiting_approval", _("A release waits for approval."), _release),
        ("release.ended", _("A release was promoted, rolled back, rejected, aborted or failed."), _release),
        ("release.rollback", _("Somebody rolls back a promoted release; that needs no approval."), _release),
        ("release.bypassed", _("A release was started that does not meet the release policy."), _release),
        ("policy.lowered", _("A team, a service or a plan demands less of releases than before."), _lowering),
        ("version.ready", _("A version was imported and may be released."), _version),
        ("version.archived", _("A version was archived: it cannot be released."), _version),
        ("version.restored", _("An archived version was restored."), _version),
        ("version.failed", _("The import of a version failed."), _version),
        ("version.refused", _("A version was refused because of its content."), _version),
        ("version.deleted", _("A version was deleted."), _version),
        ("version.exported", _("A version was exported to a hub or another Slipway."), _version),
        ("alias.moved", _("An alias was moved to another version."), _alias_move),
        ("deployment.ready", _("All workers of a deployment are ready."), _deployment),
        ("deployment.degraded", _("Some workers of a deployment are not ready."), _deployment),
        ("deployment.failing", _("A deployment cannot serve."), _deployment),
        ("deployment.removed", _("The workers of a deployment have stopped."), _deployment),
        ("worker.lost", _("A worker stopped sending heartbeats."), _worker),
        ("worker.stuck", _("All slots of a worker are busy and no request finishes."), _worker),
        (
            "work.stuck",
            _("Something is stuck until somebody acts. Not sent to endpoints of a team."),
            _installation,
        ),
        (
            "disk.low",
            _("The disk of a server is almost full, or no longer full. Not sent to endpoints of a team."),
            _installation,
        ),
        (
            "disk.full",
            _("The disk of a server is full: nothing new is written. Not sent to endpoints of a team."),
            _installation,
        ),
        (
            "disk.recovered",
            _("The disk of a server has enough free space again. Not sent to endpoints of a team."),
            _installation,
        ),
        (
            "audit.head",
            _("The signed head of the audit log, as proof of it. Not sent to endpoints of a team."),
            _installation,
        ),
        (
            "webhook.disabled",
            _("A webhook was disabled: it failed for too long, or answered 410."),
            _endpoint,
        ),
    ):
        declare(EventType(name, says, tell))


def _release(ids: Ids) -> Told | None:
    rows = (
        with_succession(Release.objects.all())
        .select_related("team", "service__model", "version__model", "from_version__model", "image")
        .prefetch_related("steps", "approvals__by")
    )
    release = rows.filter(pk=ids["release_id"]).first()
    if release is None:
        return None
    return Told(release.team_id, {**ids, "release": _document(ReleaseSerializer, release)})


def _lowering(ids: Ids) -> Told | None:
    row = AuditRecord.objects.filter(seq=ids["audit_seq"]).first()
    if row is None:
        return None
    shown = {"subject": row.subject_label, "by": row.actor, "reason": row.reason, **row.detail}
    return Told(row.team_id, {**ids, **shown})


def _version(ids: Ids) -> Told | None:
    version = Version.objects.select_related("model", "parent__model").filter(pk=ids["version_id"]).first()
    if version is None:
        return None
    card = registry.version_card(version)
    return Told(version.model.team_id, {**ids, "version": _document(VersionSerializer, card)})


def _alias_move(ids: Ids) -> Told | None:
    rows = AliasMove.objects.select_related("model", "from_version", "to_version")
    move = rows.filter(pk=ids["move_id"]).first()
    if move is None:
        return None
    shown = {"model": move.model.name, "move": _document(AliasMoveSerializer, move)}
    return Told(move.model.team_id, {**ids, **shown})


def _deployment(ids: Ids) -> Told | None:
    rows = Deployment.objects.select_related("cluster", "team", "image").prefetch_related("workers__node")
    deployment = rows.filter(pk=ids["deployment_id"]).first()
    if deployment is None:
        return None
    return Told(deployment.team_id, {**ids, "deployment": _document(DeploymentSerializer, deployment)})


def _worker(ids: Ids) -> Told | None:
    """With the deployment that it belongs to, as a worker is not shown without one."""
    worker = Worker.objects.filter(pk=ids["worker_id"]).first()
    told = _deployment({"deployment_id": worker.deployment_id}) if worker else None
    if worker is None or told is None:
        return None
    return Told(told.team_id, {**ids, "worker": worker.name, **told.data})


def _endpoint(ids: Ids) -> Told | None:
    endpoint = WebhookEndpoint.objects.filter(pk=ids["webhook_id"]).first()
    return Told(endpoint.team_id, {**ids, "host": endpoint.host}) if endpoint else None


def _installation(ids: Ids) -> Told:
    return Told(None, ids)


def _document(serializer: type[BaseSerializer[Any]], instance: Any) -> Any:
    return serializer(instance).data
