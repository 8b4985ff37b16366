"""The door for relays of clusters: what all workers of a cluster say, once a second, and who may say it."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from channels.db import database_sync_to_async
from django.utils.translation import gettext as _

from accounts.actors import KnownActor
from accounts.services.rights import require, require_for_owner
from accounts.states import Right
from clusters.agents import relay_key
from clusters.heartbeat_store import current_heartbeat_store
from clusters.models import RelayToken, ReportToken
from clusters.scrape_targets import scrape_targets
from clusters.services.node_reports import RejectedHeartbeat, entry_name, mismatch
from common import clock
from common.errors import Invalid, NotAllowed
from serving.relay_protocol import MOST_WORKERS, RelayReport

TOLD_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ReportingRelay:
    cluster_id: int


@dataclass(frozen=True, slots=True)
class RelayInstructions:
    """Instructions to a relay."""

    revision: str
    reporters: Mapping[str, str]
    targets: Sequence[Mapping[str, Any]]


def reporting_relay(actor: KnownActor) -> ReportingRelay:
    """The cluster whose relay the actor's token is of. Raises NotAllowed, OutOfScope."""
    require(actor, Right.FLEET_REPORT)
    found = RelayToken.objects.select_related("cluster__team").filter(token=actor.token_id).first()
    if actor.token_id is None or found is None:
        raise NotAllowed(_("This token is of no relay. Report with the one that Slipway made for it."))
    require_for_owner(actor, Right.FLEET_REPORT, found.cluster.team)
    return ReportingRelay(found.cluster_id)


async def accept_relay_report(
    document: object, *, relay: ReportingRelay, told: RelayInstructions | None = None
) -> dict[str, Any]:
    """Share its good heartbeats with all processes; answer what is wrong with others, and what the relay does
    not know yet (`serving.relay_protocol.RelayAnswer`).

    `told`: what the relay has to know, where it was read already. A worker must be one that the cluster
    shows, and be what its deployment says it is. Raises Invalid when it
    is no report, OutdatedReport when it is not newer than what came.
    """
    try:
        report = RelayReport.from_dict(document)
    except ValueError as error:
        raise Invalid(fields={"report": [f"{error}."]}) from None
    entries = [entry for machine in report.machines for entry in machine.workers]
    if len(entries) > MOST_WORKERS:
        raise Invalid(fields={"machines": [_("Send at most %(most)s workers.") % {"most": MOST_WORKERS}]})
    store = current_heartbeat_store()
    if entries:
        await store.rows()
    key = relay_key(relay.cluster_id)
    turn = await store.order.accept(key, report.session, report.sequence)
    refused = []
    for entry in entries:
        try:
            heartbeat = store.validated(entry)
        except ValueError as error:
            refused.append(RejectedHeartbeat(entry_name(entry, "worker"), f"{error}."))
            continue
        if reason := mismatch(heartbeat, store, cluster_id=relay.cluster_id):
            refused.append(RejectedHeartbeat(heartbeat["worker"], reason))
        else:
            store.ingest(heartbeat, turn=turn)
    store.ingest_relay(relay.cluster_id, turn=turn)
    told = told or await _told(relay.cluster_id)
    answer: dict[str, Any] = {
        "accepted": len(entries) - len(refused),
        "refused": [{"worker": one.entry, "reason": one.reason} for one in refused],
        "revision": told.revision,
    }
    if report.known != told.revision:
        answer |= {"reporters": told.reporters, "targets": told.targets}
    return answer


_kept: dict[int, tuple[float, RelayInstructions]] = {}


async def _told(cluster_id: int) -> RelayInstructions:
    held = _kept.get(cluster_id)
    if held is None or held[0] < time.monotonic():
        held = (time.monotonic() + TOLD_SECONDS, await database_sync_to_async(read_told)(cluster_id))
        _kept[cluster_id] = held
    return held[1]


def read_told(cluster_id: int) -> RelayInstructions:
    tokens = ReportToken.objects.filter(deployment__cluster=cluster_id, token__revoked_at=None)
    living = tokens.filter(token__expires_at__gt=clock.now()).order_by("pk")
    reporters = dict(living.values_list("token__secret_hash", "deployment__name"))
    targets = scrape_targets(cluster_id)
    content = orjson.dumps([reporters, targets], option=orjson.OPT_SORT_KEYS)
    return RelayInstructions(hashlib.sha256(content).hexdigest()[:16], reporters, targets)
