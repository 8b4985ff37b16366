"""What webhooks tell of deployments and workers, with REST's documents."""

from clusters.api.serializers import DeploymentSerializer
from clusters.models import Deployment, Worker
from common.webhooks.catalogue import EventPayload, Ids


def deployment_payload(ids: Ids) -> EventPayload | None:
    rows = Deployment.objects.select_related("cluster", "team", "image").prefetch_related("workers__node")
    deployment = rows.filter(pk=ids["deployment_id"]).first()
    if deployment is None:
        return None
    return EventPayload(deployment.team_id, {**ids, "deployment": DeploymentSerializer(deployment).data})


def worker_payload(ids: Ids) -> EventPayload | None:
    """With the deployment that it belongs to, as a worker is not shown without one."""
    worker = Worker.objects.filter(pk=ids["worker_id"]).first()
    payload = deployment_payload({"deployment_id": worker.deployment_id}) if worker else None
    if worker is None or payload is None:
        return None
    return EventPayload(payload.team_id, {**ids, "worker": worker.name, **payload.data})
