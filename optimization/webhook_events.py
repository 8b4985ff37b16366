"""Payloads of webhooks about optimised versions, with REST's documents."""

from common.webhooks.catalogue import EventPayload, Ids
from optimization.api.serializers import OptimizationDetailSerializer
from optimization.models import OptimizationRun


def optimization_payload(ids: Ids) -> EventPayload | None:
    rows = OptimizationRun.objects.select_related("team", "parent__model", "child__model")
    row = rows.filter(pk=ids["optimization_id"]).first()
    if row is None:
        return None
    return EventPayload(row.team_id, {**ids, "optimization": OptimizationDetailSerializer(row).data})
