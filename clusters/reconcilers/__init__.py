"""One step of a deployment, one look at a cluster."""

from clusters.reconcilers.clusters import ClusterReconciler
from clusters.reconcilers.deployments import DeploymentReconciler

__all__ = ["ClusterReconciler", "DeploymentReconciler"]
