"""Payloads of webhooks about clusters, with REST's documents."""

from clusters.api.drains import DrainSerializer
from clusters.api.serializers import ClusterSerializer, DeploymentSerializer, NodeSerializer
from clusters.models import Cluster, Deployment, Drain, Node, Worker
from common.webhooks.catalogue import EventPayload, Ids


def deployment_payload(ids: Ids) -> EventPayload | None:
    rows = Deployment.objects.select_related("cluster", "team", "image").prefetch_related("workers__node")
    deployment = rows.filter(pk=ids["deployment_id"]).first()
    if deployment is None:
        return None
    return EventPayload(deployment.team_id, {**ids, "deployment": DeploymentSerializer(deployment).data})


def cluster_payload(ids: Ids) -> EventPayload | None:
    row = Cluster.objects.select_related("team").filter(pk=ids["cluster_id"]).first()
    if row is None:
        return None
    return EventPayload(row.team_id, {**ids, "cluster": ClusterSerializer(row).data})


def node_payload(ids: Ids) -> EventPayload | None:
    node = Node.objects.select_related("cluster").prefetch_related("gpus").filter(pk=ids["node_id"]).first()
    if node is None:
        return None
    data = {**ids, "cluster": node.cluster.name, "node": NodeSerializer(node).data}
    return EventPayload(node.cluster.team_id, data)


def drain_payload(ids: Ids) -> EventPayload | None:
    row = Drain.objects.select_related("node__cluster").filter(pk=ids["drain_id"]).first()
    if row is None:
        return None
    return EventPayload(row.node.cluster.team_id, {**ids, "drain": DrainSerializer(row).data})


def worker_payload(ids: Ids) -> EventPayload | None:
    """Return the payload with the worker's deployment, without which no worker is shown."""
    worker = Worker.objects.filter(pk=ids["worker_id"]).first()
    payload = deployment_payload({"deployment_id": worker.deployment_id}) if worker else None
    if worker is None or payload is None:
        return None
    return EventPayload(payload.team_id, {**ids, "worker": worker.name, **payload.data})
