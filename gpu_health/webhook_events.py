"""What webhooks tell of GPU health, with REST's documents."""

from common.webhooks.catalogue import EventPayload, Ids
from gpu_health.api.healing_serializers import GpuIncidentSerializer
from gpu_health.api.serializers import GpuFindingSerializer
from gpu_health.models import Finding, Incident


def finding_payload(ids: Ids) -> EventPayload | None:
    finding = Finding.objects.select_related("node__cluster").filter(pk=ids["finding_id"]).first()
    if finding is None:
        return None
    return EventPayload(finding.node.cluster.team_id, {**ids, "finding": GpuFindingSerializer(finding).data})


def incident_payload(ids: Ids) -> EventPayload | None:
    incident = Incident.objects.select_related("node__cluster").filter(pk=ids["incident_id"]).first()
    if incident is None:
        return None
    return EventPayload(
        incident.node.cluster.team_id, {**ids, "incident": GpuIncidentSerializer(incident).data}
    )
