"""The fleet as live pages are told of it: values by path. Pure."""

from typing import Any

from clusters.fleet import FleetSnapshot, WorkerLoad
from common.live.board import PUBLIC, Shard


def values_of(fleet: FleetSnapshot) -> dict[Shard, dict[str, Any]]:
    """Return the values of the topic `fleet` by team: machines and clusters to whoever may see the cluster,
    workers and deployments to their own team.
    """
    parts: dict[Shard, dict[str, Any]] = {PUBLIC: {"live": fleet.is_live}}
    for cluster in fleet.clusters:
        of_cluster = parts.setdefault(cluster.row.team_id or PUBLIC, {})
        of_cluster |= _load_values(f"cluster.{cluster.row.name}", cluster.load)
        of_cluster[f"cluster.{cluster.row.name}.problem"] = cluster.row.problem
        for node in cluster.nodes:
            of_cluster |= _load_values(f"node.{node.row.pk}", node.load)
            of_cluster[f"node.{node.row.pk}.state"] = node.row.state
            of_cluster[f"node.{node.row.pk}.agent_silent"] = node.agent_silent_since is not None
        for deployment in cluster.deployments:
            of_team = parts.setdefault(deployment.row.team_id, {})
            path = f"deployment.{deployment.row.name}"
            of_team |= _load_values(path, deployment.load)
            of_team[f"{path}.wanted"] = deployment.row.replicas
            of_team[f"{path}.state"] = deployment.row.state
            for worker in deployment.workers:
                path = f"worker.{worker.row.name}"
                of_team[f"{path}.busy"] = _rounded(worker.busy)
                of_team[f"{path}.in_flight"] = worker.in_flight
                of_team[f"{path}.queue_depth"] = worker.queue_depth
                of_team[f"{path}.ttft"] = worker.ttft_seconds
                of_team[f"{path}.state"] = worker.state
                of_team[f"{path}.alert"] = worker.alert
                of_team[f"{path}.restarts"] = worker.row.restarts
    return parts


def _load_values(path: str, load: WorkerLoad) -> dict[str, Any]:
    return {
        f"{path}.busy": _rounded(load.busy),
        f"{path}.in_flight": load.in_flight,
        f"{path}.slots": load.slots,
        f"{path}.workers": load.workers,
        f"{path}.ready": load.ready,
        f"{path}.lost": load.lost,
        f"{path}.stuck": load.stuck,
        f"{path}.saturated": load.saturated,
    }


def _rounded(share: float | None) -> float | None:
    # A percent is what people see; more digits would make every value new in every second.
    return None if share is None else round(share, 2)
