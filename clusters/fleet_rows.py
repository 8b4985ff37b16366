"""Rows of the fleet, read by a few queries however many there are."""

from collections.abc import Collection
from datetime import timedelta

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce

from clusters.agents import agent_key, never_heard_key, relay_key
from clusters.backends.kinds import abilities_of
from clusters.faults import is_faulty
from clusters.fleet import ClusterRow, DeploymentRow, FleetRows, NodeRow, WorkerRow
from clusters.models import AgentToken, Cluster, Deployment, Node, Worker
from clusters.report_tokens import has_relay, workers_report
from clusters.states import DeploymentState, NodeState
from common import clock

GONE_SHOWN = timedelta(days=1)
"""How long a machine that is gone stays on the pages; its row stays for good."""


def fleet_rows() -> FleetRows:
    """Clusters, machines, living deployments and their workers: four queries, however many there are."""
    deployments = Deployment.objects.exclude(state=DeploymentState.REMOVED)
    clusters = Cluster.objects.present().values_list("pk", "name", "team_id", "problem")
    is_recent = ~Q(state=NodeState.GONE) | Q(state_since__gt=clock.now() - GONE_SHOWN)
    nodes = Node.objects.filter(is_recent).values_list(*_NODE_COLUMNS, is_faulty())
    return FleetRows(
        clusters=[ClusterRow(*row) for row in clusters],
        nodes=[NodeRow(*row) for row in nodes],
        deployments=[DeploymentRow(*row) for row in deployments.values_list(*DEPLOYMENT_COLUMNS)],
        workers=worker_rows(Worker.objects.all()),
    )


_NODE_COLUMNS = (
    "pk", "name", "cluster_id", "group", "state", "problem", "is_cordoned", "uid",
    "cordoned_by", "cordon_reason", "cordoned_at", "agent_silent_since",
)  # fmt: skip
DEPLOYMENT_COLUMNS = (
    "pk", "name", "cluster_id", "team_id", "service", "version_label",
    Coalesce("observed_replicas", "replicas"), "slots", "state", "reason", "observed_at",
)  # fmt: skip
_WORKER_COLUMNS = (
    "pk", "uid", "name", "deployment_id", "node_id", "pid", "state", "state_since", "restarts", "reason",
    "alert",
)  # fmt: skip


def worker_rows(workers: QuerySet[Worker]) -> list[WorkerRow]:
    agent = AgentToken.objects.filter(cluster=OuterRef("node__cluster"), node_uid=OuterRef("node__uid"))
    found = workers.annotate(has_agent=Exists(agent))
    rows = list(
        found.values_list(
            "has_agent", "node__uid", "deployment__cluster", "deployment__cluster__kind", *_WORKER_COLUMNS
        )
    )
    in_pods = {cluster_id for _has, _uid, cluster_id, kind, *_ in rows if abilities_of(kind).reports_by_token}
    instead = _in_agents_place(in_pods) if in_pods else {}
    return [
        WorkerRow(*(*columns, agent_key(cluster_id, uid) if has_agent else instead.get(cluster_id, "")))
        for has_agent, uid, cluster_id, _kind, *columns in rows
    ]


def _in_agents_place(cluster_ids: Collection[int]) -> dict[int, str]:
    """Return by cluster the key that stands in place of agents that its machines lack."""
    found = {}
    for pk, kind, settings in Cluster.objects.filter(pk__in=cluster_ids).values_list(
        "pk", "kind", "settings"
    ):
        if has_relay(kind, settings):
            found[pk] = relay_key(pk)
        elif not workers_report(kind, settings):
            found[pk] = never_heard_key(pk)
    return found
