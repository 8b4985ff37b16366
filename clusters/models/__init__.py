from clusters.models.clusters import Cluster, ClusterRows, slug
from clusters.models.deployments import (
    MAX_REPLICAS,
    MAX_SLOTS,
    Deployment,
    DeploymentRows,
    Worker,
    WorkerLogRequest,
    WorkerRows,
)
from clusters.models.drains import Drain, DrainRows, Surge
from clusters.models.image_pulls import ImagePull
from clusters.models.memory import FleetDay, FleetMemory, FleetMinute
from clusters.models.nodes import Gpu, Node, NodeRows, Occupancy
from clusters.models.tokens import AgentToken, BoundToken, FilesToken, RelayToken, ReportToken

__all__ = [
    "MAX_REPLICAS",
    "MAX_SLOTS",
    "AgentToken",
    "BoundToken",
    "Cluster",
    "ClusterRows",
    "Deployment",
    "DeploymentRows",
    "Drain",
    "DrainRows",
    "FilesToken",
    "FleetDay",
    "FleetMemory",
    "FleetMinute",
    "Gpu",
    "ImagePull",
    "Node",
    "NodeRows",
    "Occupancy",
    "RelayToken",
    "ReportToken",
    "Surge",
    "Worker",
    "WorkerLogRequest",
    "WorkerRows",
    "slug",
]
