import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from accounts.actors import grants_of
from accounts.grants import Grants
from accounts.states import Right
from clusters.fleet import DeploymentRow
from clusters.heartbeat_store import HeartbeatStore, current_heartbeat_store
from clusters.models import MAX_REPLICAS
from common.actor import Actor
from common.errors import Invalid
from serving.protocol import MAX_WORKERS_PER_BATCH, Heartbeat, ProtocolError


@dataclass(frozen=True, slots=True)
class Refusal:
    worker: str
    """As it named itself; empty when it did not."""
    reason: str


@dataclass(frozen=True, slots=True)
class Receipt:
    accepted: int
    refused: Sequence[Refusal]


async def accept_heartbeats(document: object, *, actor: Actor) -> Receipt:
    """Share the good heartbeats of `{"workers": [...]}` with all processes; say what is wrong with others.

    A worker must belong to a living deployment of a team for which the actor may report, and be what that
    deployment says it is. Nothing is written to the database. Raises Invalid when it is no batch.
    """
    entries = document.get("workers") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise Invalid(fields={"workers": [_("Send a list of heartbeats.")]})
    if len(entries) > MAX_WORKERS_PER_BATCH:
        raise Invalid(
            fields={
                "workers": [
                    _("Send at most %(max_workers_per_batch)s at once.")
                    % {"max_workers_per_batch": MAX_WORKERS_PER_BATCH}
                ]
            }
        )
    store = current_heartbeat_store()
    grants = grants_of(actor)
    refused = []
    for entry in entries:
        reason = await _take(entry, store, grants)
        if reason:
            refused.append(Refusal(_name(entry), reason))
    return Receipt(len(entries) - len(refused), refused)


async def _take(entry: object, store: HeartbeatStore, grants: Grants) -> str:
    """Why not; empty when it was taken."""
    try:
        heartbeat = Heartbeat.from_dict(entry)
    except ProtocolError as error:
        return f"{error}."
    deployment = await store.deployment(heartbeat.deployment)
    if deployment is None or not grants.may(Right.FLEET_REPORT, deployment.team_id):
        return _("There is no deployment %(deployment)s for which you may report.") % {
            "deployment": heartbeat.deployment
        }
    reason = _mismatch(heartbeat, deployment)
    if not reason:
        store.ingest(heartbeat)
    return reason


def _mismatch(heartbeat: Heartbeat, deployment: DeploymentRow) -> str:
    seat = re.fullmatch(rf"{re.escape(deployment.name)}-(\d{{1,3}})", heartbeat.worker)
    if seat is None or int(seat[1]) >= MAX_REPLICAS:
        return _("%(worker)s is no worker of %(deployment)s.") % {
            "worker": heartbeat.worker,
            "deployment": deployment.name,
        }
    if heartbeat.service != deployment.service:
        return _("%(deployment)s serves %(service)s, not %(service_2)s.") % {
            "deployment": deployment.name,
            "service": deployment.service,
            "service_2": heartbeat.service,
        }
    if heartbeat.version != deployment.version_label:
        return _("%(deployment)s serves %(version_label)s, not %(version)s.") % {
            "deployment": deployment.name,
            "version_label": deployment.version_label,
            "version": heartbeat.version,
        }
    return ""


def _name(entry: Any) -> str:
    return str(entry.get("worker", ""))[:128] if isinstance(entry, dict) else ""
