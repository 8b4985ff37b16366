"""Every write of clusters and deployments, each with its audit row; and the door for heartbeats."""

from clusters.services.clusters import change_cluster, register_cluster
from clusters.services.deployments import (
    ensure_deployment,
    lay_out_again,
    remove_deployment,
    scale_deployment,
)
from clusters.services.logs import MAX_LINES, worker_log
from clusters.services.node_reports import Receipt, Refusal, accept_heartbeats

__all__ = [
    "MAX_LINES",
    "Receipt",
    "Refusal",
    "accept_heartbeats",
    "change_cluster",
    "ensure_deployment",
    "lay_out_again",
    "register_cluster",
    "remove_deployment",
    "scale_deployment",
    "worker_log",
]
