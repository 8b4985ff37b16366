"""The fleet at one moment: rows and heartbeats in, machines and their busy rates out. Pure.

Busy, for a worker: mean share of its slots at work over the last 10 s, as it says itself. For a machine, a
deployment or a cluster: the mean over its workers weighted by their slots, so that it is the share of all
slots at work. Workers that are lost, failed or still starting offer no slots and do not count.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from clusters.agents import LOOKED_WITHIN, AgentContact, is_silent
from clusters.alerts import SERVING, alert_of, reason_of
from clusters.last_heartbeat import LastHeartbeat as LastHeartbeat
from clusters.states import Alert, MachineGroup, WorkerState
from common.live.board import PUBLIC, Audience, Shard
from serving.protocol import LOST_AFTER_SECONDS

CRASH_LOOP = 3
"""Ends of a worker's process since it was last ready for a while."""
FULL = 1.0
"""Longer than most answers take: of a worker whose slots are all busy, one ends in less."""


@dataclass(frozen=True, slots=True)
class ClusterRow:
    pk: int
    name: str
    team_id: int | None
    problem: str


@dataclass(frozen=True, slots=True)
class NodeRow:
    pk: int
    name: str
    cluster_id: int
    group: str
    state: str
    problem: str = ""
    is_cordoned: bool = False
    uid: str = ""
    cordoned_by: str = ""
    cordon_reason: str = ""
    cordoned_at: datetime | None = None
    agent_silent_since: datetime | None = None
    is_faulty: bool = False
    """An app above holds it for faulty."""


@dataclass(frozen=True, slots=True)
class DeploymentRow:
    pk: int
    name: str
    cluster_id: int
    team_id: int
    service: str
    version_label: str
    replicas: int
    slots: int
    state: str
    reason: str
    observed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class WorkerRow:
    pk: int
    uid: str
    name: str
    deployment_id: int
    node_id: int | None
    pid: int | None
    state: str
    state_since: datetime
    restarts: int
    reason: str
    alert: str = ""
    """As it was judged last."""
    agent: str = ""
    """Key of its machine's; empty: it has none."""


@dataclass(frozen=True, slots=True)
class FleetRows:
    """The part of the database that the fleet is made of: clusters, machines, living deployments, workers."""

    clusters: Sequence[ClusterRow] = ()
    nodes: Sequence[NodeRow] = ()
    deployments: Sequence[DeploymentRow] = ()
    workers: Sequence[WorkerRow] = ()


@dataclass(frozen=True, slots=True)
class WorkerSnapshot:
    row: WorkerRow
    deployment: DeploymentRow
    state: str
    alert: str
    reason: str
    busy: float | None
    """None while nothing is known."""
    in_flight: int
    slots: int
    queue_depth: int
    ttft_seconds: float | None = None
    code_runs: str = ""
    requests: int = 0
    """Answered since its process began."""
    group: str = ""
    jobs_running: int = 0
    refused: int = 0
    load_seconds: float | None = None
    """That its files and its engine took to load; None: not known."""

    @property
    def crashes_again(self) -> bool:
        return self.row.restarts >= CRASH_LOOP and self.state != WorkerState.READY

    @property
    def offers_slots(self) -> bool:
        return self.busy is not None and self.alert != Alert.LOST and self.state in SERVING


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """Load of a group of workers."""

    busy: float | None
    in_flight: int
    slots: int
    workers: int
    ready: int
    lost: int
    """Silent, ended and not answering again yet, or failed."""
    stuck: int
    saturated: int = 0


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    row: NodeRow
    workers: Sequence[WorkerSnapshot]
    load: WorkerLoad
    agent_silent_since: datetime | None = None
    """None: its agent was heard a moment ago, or it has none."""

    @property
    def live_id(self) -> str:
        """Return the name in the paths of live values."""
        return str(self.row.pk)

    @property
    def group_label(self) -> str:
        return str(MachineGroup(self.row.group).label)


@dataclass(frozen=True, slots=True)
class DeploymentSnapshot:
    row: DeploymentRow
    workers: Sequence[WorkerSnapshot]
    load: WorkerLoad


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    row: ClusterRow
    nodes: Sequence[NodeSnapshot]
    """Those in trouble first: a lost or stuck worker, then by name."""
    deployments: Sequence[DeploymentSnapshot]
    unplaced: Sequence[WorkerSnapshot]
    """Workers of which the machine is not known."""
    load: WorkerLoad


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    clusters: Sequence[ClusterSnapshot]
    is_live: bool
    """False when heartbeats are not known at the moment: busy rates are None or old, and nothing is lost."""

    @property
    def workers(self) -> list[WorkerSnapshot]:
        return [
            worker for cluster in self.clusters for found in cluster.deployments for worker in found.workers
        ]


def fleet_of(
    rows: FleetRows,
    heartbeats: Mapping[str, LastHeartbeat],
    *,
    now: datetime,
    is_live: bool,
    agents: Mapping[str, AgentContact] | None = None,
) -> FleetSnapshot:
    """`agents`: those that were heard within the last minute, by their key."""
    deployments = {row.pk: row for row in rows.deployments}
    workers = [
        _worker_now(
            row,
            deployments[row.deployment_id],
            heartbeats.get(row.uid),
            _excuse(row, deployments[row.deployment_id], agents or {}, now=now),
            now=now,
            is_live=is_live,
        )
        for row in rows.workers
        if row.deployment_id in deployments
    ]
    by_deployment = _grouped(workers, lambda worker: worker.row.deployment_id)
    by_node = _grouped(workers, lambda worker: worker.row.node_id)
    nodes = _grouped(
        [_node_now(row, by_node.get(row.pk, []), now=now) for row in rows.nodes],
        lambda node: node.row.cluster_id,
    )
    living = _grouped(
        [
            DeploymentSnapshot(row, found := by_deployment.get(row.pk, []), load_of(found))
            for row in rows.deployments
        ],
        lambda deployment: deployment.row.cluster_id,
    )
    return FleetSnapshot(
        [_cluster_now(row, nodes.get(row.pk, []), living.get(row.pk, [])) for row in rows.clusters], is_live
    )


def load_of(workers: Iterable[WorkerSnapshot]) -> WorkerLoad:
    found = list(workers)
    serving = [worker for worker in found if worker.offers_slots]
    slots = sum(worker.slots for worker in serving)
    at_work = sum((worker.busy or 0.0) * worker.slots for worker in serving)
    return WorkerLoad(
        busy=at_work / slots if slots else None,
        in_flight=sum(worker.in_flight for worker in serving),
        slots=slots,
        workers=len(found),
        ready=sum(worker.state == WorkerState.READY and worker.alert != Alert.LOST for worker in found),
        lost=sum(worker.alert == Alert.LOST or worker.state == WorkerState.FAILED for worker in found),
        stuck=sum(worker.alert == Alert.STUCK for worker in found),
        saturated=sum(worker.alert == Alert.SATURATED for worker in found),
    )


def narrowed(fleet: FleetSnapshot, audience: Audience) -> FleetSnapshot:
    """The part that this audience may see; busy rates stay those of the whole."""
    if audience is None:
        return fleet
    return FleetSnapshot(
        [
            replace(
                cluster,
                nodes=[replace(node, workers=_of_teams(node.workers, audience)) for node in cluster.nodes],
                deployments=[one for one in cluster.deployments if one.row.team_id in audience],
                unplaced=_of_teams(cluster.unplaced, audience),
            )
            for cluster in fleet.clusters
            if (cluster.row.team_id or PUBLIC) in audience
        ],
        fleet.is_live,
    )


def _of_teams(workers: Sequence[WorkerSnapshot], audience: frozenset[Shard]) -> list[WorkerSnapshot]:
    return [worker for worker in workers if worker.deployment.team_id in audience]


def _node_now(row: NodeRow, workers: Sequence[WorkerSnapshot], *, now: datetime) -> NodeSnapshot:
    since = row.agent_silent_since
    return NodeSnapshot(row, workers, load_of(workers), since if is_silent(since, now=now) else None)


def _excuse(
    row: WorkerRow, deployment: DeploymentRow, agents: Mapping[str, AgentContact], *, now: datetime
) -> AgentContact | None:
    """The agent without which no word of the worker can come; None where the backend does not look either."""
    seen_at = deployment.observed_at
    if not row.agent or seen_at is None or now - seen_at > LOOKED_WITHIN:
        return None
    return agents.get(row.agent, AgentContact())


def _worker_now(
    row: WorkerRow,
    deployment: DeploymentRow,
    heartbeat: LastHeartbeat | None,
    agent: AgentContact | None,
    *,
    now: datetime,
    is_live: bool,
) -> WorkerSnapshot:
    # Without heartbeats nobody is called silent; that a process ended is known all the same.
    alert = (
        alert_of(row, heartbeat, agent=agent, now=now) if is_live or row.state not in SERVING else Alert.NONE
    )
    is_fresh = heartbeat is not None and heartbeat.age_seconds <= LOST_AFTER_SECONDS
    return WorkerSnapshot(
        row=row,
        deployment=deployment,
        state=row.state,
        alert=alert,
        reason=_reason(row, heartbeat, alert),
        busy=heartbeat.busy if heartbeat and is_fresh else None,
        in_flight=heartbeat.in_flight if heartbeat and is_fresh else 0,
        slots=heartbeat.slots if heartbeat else deployment.slots,
        queue_depth=heartbeat.queue_depth if heartbeat and is_fresh else 0,
        code_runs=heartbeat.code_runs if heartbeat else "",
        ttft_seconds=heartbeat.ttft_seconds if heartbeat and is_fresh else None,
        requests=heartbeat.requests if heartbeat else 0,
        group=heartbeat.group if heartbeat and is_fresh else "",
        jobs_running=heartbeat.jobs_running if heartbeat and is_fresh else 0,
        refused=heartbeat.refused if heartbeat else 0,
        load_seconds=heartbeat.load_seconds if heartbeat else None,
    )


def _reason(row: WorkerRow, heartbeat: LastHeartbeat | None, alert: Alert) -> str:
    if alert != Alert.NONE:
        return reason_of(alert, row, heartbeat)
    if row.state != WorkerState.READY:
        return row.reason or (heartbeat.reason if heartbeat else "")
    return ""


def _cluster_now(
    row: ClusterRow, nodes: Sequence[NodeSnapshot], deployments: Sequence[DeploymentSnapshot]
) -> ClusterSnapshot:
    workers = [worker for deployment in deployments for worker in deployment.workers]
    placed = {node.row.pk for node in nodes}
    return ClusterSnapshot(
        row=row,
        nodes=sorted(nodes, key=lambda node: (not _is_in_trouble(node), node.row.name)),
        deployments=sorted(deployments, key=lambda one: one.row.name),
        unplaced=[worker for worker in workers if worker.row.node_id not in placed],
        load=load_of(workers),
    )


def _is_in_trouble(node: NodeSnapshot) -> bool:
    return bool(node.load.stuck or node.load.lost or node.agent_silent_since)


def _grouped(items: Iterable[Any], key: Any) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
