"""The gateway follows clusters and their workers."""

import logging

from clusters.errors import DeploymentMissing
from clusters.events import ClusterMoved, ClusterRegistered, WorkersChanged
from clusters.models import Cluster
from clusters.selectors import deployment_name
from common.actor import Actor
from gateway.errors import GatewayError
from gateway.services import gateways, routes

logger = logging.getLogger(__name__)


def give_gateway(event: ClusterRegistered) -> None:
    """Give a new cluster its gateway in the same transaction: services may be created there at once."""
    for cluster in Cluster.objects.filter(pk=event.cluster_id):
        gateways.ensure_gateway(cluster, actor=Actor.system("bootstrap"))


def move_gateway(event: ClusterMoved) -> None:
    """Move the gateway in the same transaction: its workers listen on that host's loopback address."""
    gateways.follow_cluster(Cluster.objects.get(pk=event.cluster_id))


def route_to_workers(event: WorkersChanged) -> None:
    """Tell the gateway at once, for latency; its own reconciler repeats what fails here within seconds."""
    try:
        routes.sync_workers(deployment_name(event.deployment_id))
    except (GatewayError, DeploymentMissing) as error:
        logger.info("The gateway does not know of changed workers yet: %s", error)
        gateways.look_soon(event.deployment_id)
