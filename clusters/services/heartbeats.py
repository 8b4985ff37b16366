"""The door for workers that report by themselves, without an agent on their machine."""

import time

from django.utils.translation import gettext as _

from accounts.actors import grants_of
from accounts.grants import Grants
from accounts.states import Right
from clusters.heartbeat_store import HeartbeatStore, current_heartbeat_store
from clusters.services.node_reports import Receipt, Refusal, entry_name, not_as_deployed
from common.actor import Actor
from common.errors import Invalid
from serving.protocol import MAX_WORKERS_PER_REPORT, Heartbeat


async def accept_heartbeats(document: object, *, actor: Actor) -> Receipt:
    """Share the good heartbeats of `{"workers": [...]}` with all processes; say what is wrong with others.

    A worker must be one that its cluster shows, of a deployment whose team lets the actor report, and be what
    that deployment says it is. Nothing is written to the database. Raises Invalid when it is no batch.
    """
    entries = document.get("workers") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise Invalid(fields={"workers": [_("Send a list of heartbeats.")]})
    if len(entries) > MAX_WORKERS_PER_REPORT:
        raise Invalid(
            fields={"workers": [_("Send at most %(most)s at once.") % {"most": MAX_WORKERS_PER_REPORT}]}
        )
    store = current_heartbeat_store()
    if entries:
        await store.rows()
    grants, turn = grants_of(actor), round(time.time() * 1000)
    refused = [
        Refusal(entry_name(entry, "worker"), reason)
        for entry in entries
        if (reason := _take(entry, store, grants, turn))
    ]
    return Receipt(len(entries) - len(refused), refused)


def _take(entry: object, store: HeartbeatStore, grants: Grants, turn: int) -> str:
    """Why not; empty when it was taken."""
    try:
        heartbeat = Heartbeat.from_dict(entry)
    except ValueError as error:
        return f"{error}."
    placed = store.placed(heartbeat.worker)
    if placed is None or not grants.may(Right.FLEET_REPORT, placed.deployment.team_id):
        return _("There is no worker %(worker)s for which you may report.") % {"worker": heartbeat.worker}
    reason = not_as_deployed(heartbeat, placed.deployment)
    if not reason:
        store.ingest(heartbeat, turn=turn)
    return reason
