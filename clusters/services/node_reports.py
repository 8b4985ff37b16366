"""The door for what agents report of their machines: nothing of it is written to the database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from accounts.services.rights import require, require_for_owner
from accounts.states import Right
from clusters.fleet import DeploymentRow
from clusters.heartbeat_store import HeartbeatStore, current_heartbeat_store
from clusters.models import AgentToken
from common.actor import Actor
from common.errors import Invalid, NotAllowed
from common.prepared import prepared
from serving.protocol import Device, NodeReport


@dataclass(frozen=True, slots=True)
class ReportingAgent:
    """The machine that a token may report."""

    cluster_id: int
    node_uid: str


def reporting_agent(actor: Actor) -> ReportingAgent:
    """The machine that the actor's token speaks for. Raises NotAllowed, OutOfScope."""
    require(actor, Right.FLEET_REPORT)
    found = _machine_of(actor.token_id) if actor.token_id is not None else []
    if not found:
        raise NotAllowed(_("This token is of no machine. Report with the one that its agent was given."))
    ((cluster_id, node_uid, team_id),) = found
    require_for_owner(actor, Right.FLEET_REPORT, team_id)
    return ReportingAgent(cluster_id, node_uid)


@prepared
def _machine_of(token_id: int) -> QuerySet[AgentToken, tuple[int, str, int | None]]:
    return AgentToken.objects.filter(token=token_id).values_list("cluster", "node_uid", "cluster__team")


@dataclass(frozen=True, slots=True)
class RejectedHeartbeat:
    entry: str
    """Worker or device, as it named itself; empty when it did not."""
    reason: str


@dataclass(frozen=True, slots=True)
class ReportReceipt:
    accepted: int
    """Workers and devices."""
    refused: Sequence[RejectedHeartbeat]


async def accept_report(document: object, *, agent: ReportingAgent) -> ReportReceipt:
    """Share a report's good entries with all processes; say what is wrong with others.

    A worker must be one that the cluster shows on this machine, or has not placed yet, and be what its
    deployment says it is. Raises Invalid when it is no report, NotAllowed when it is of another machine,
    OutdatedReport when it is not newer than what came.
    """
    try:
        report = NodeReport.from_dict(document)
    except ValueError as error:
        raise Invalid(fields={"report": [f"{error}."]}) from None
    if report.node != agent.node_uid:
        raise NotAllowed(
            _("This token is of the machine %(own)s: it cannot report %(other)s.")
            % {"own": agent.node_uid, "other": report.node}
        )
    store = current_heartbeat_store()
    if report.workers:
        await store.rows()
    turn = await store.order.accept(f"{agent.cluster_id}/{report.node}", report.session, report.sequence)
    refused = [
        RejectedHeartbeat(entry_name(entry, "worker"), reason)
        for entry in report.workers
        if (reason := _take(entry, store, agent, turn))
    ]
    devices = []
    for entry in report.devices:
        try:
            devices.append(Device.from_dict(entry))
        except ValueError as error:
            refused.append(RejectedHeartbeat(entry_name(entry, "uuid"), f"{error}."))
    store.ingest_devices(agent.cluster_id, report.node, devices, turn=turn)
    return ReportReceipt(len(report.workers) + len(report.devices) - len(refused), refused)


def _take(entry: object, store: HeartbeatStore, agent: ReportingAgent, turn: int) -> str:
    """Why not; empty when it was taken."""
    try:
        heartbeat = store.validated(entry)
    except ValueError as error:
        return f"{error}."
    reason = mismatch(heartbeat, store, cluster_id=agent.cluster_id, node_uid=agent.node_uid)
    if not reason:
        store.ingest(heartbeat, turn=turn)
    return reason


def mismatch(
    heartbeat: Mapping[str, Any], store: HeartbeatStore, *, cluster_id: int, node_uid: str | None = None
) -> str:
    """Why it is no worker of this cluster, and of this machine if one is named; empty when it is."""
    worker = heartbeat["worker"]
    placed = store.placed(worker)
    if placed is None or placed.deployment.cluster_id != cluster_id:
        return _("The cluster shows no worker %(worker)s: report it again in a moment.") % {"worker": worker}
    if node_uid is not None and placed.node_uid not in ("", node_uid):
        return _("%(worker)s runs on another machine.") % {"worker": worker}
    return not_as_deployed(heartbeat, placed.deployment)


def not_as_deployed(heartbeat: Mapping[str, Any], deployment: DeploymentRow) -> str:
    """Return the fields in which a worker differs from its deployment; empty when in none."""
    for wanted, said in (
        (deployment.name, heartbeat["deployment"]),
        (deployment.service, heartbeat["service"]),
        (deployment.version_label, heartbeat["version"]),
    ):
        if said != wanted:
            return _("%(worker)s belongs to %(wanted)s, not %(said)s.") % {
                "worker": heartbeat["worker"],
                "wanted": wanted,
                "said": said,
            }
    return ""


def entry_name(entry: Any, key: str) -> str:
    """Return the name of a faulty entry."""
    return str(entry.get(key, ""))[:128] if isinstance(entry, dict) else ""
