"""Workers with what they report this second."""

from collections.abc import Iterator
from typing import Any, ClassVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters import selectors
from clusters.fleet import FleetSnapshot
from clusters.models import Worker
from clusters.states import Alert, WorkerState
from common.api.examples import example
from common.api.views import Endpoint

FILTERS = ("cluster", "service", "deployment")
EXAMPLE = {
    "name": "chat-r12-0",
    "cluster": "local",
    "node": "box-1",
    "service": "chat",
    "version": "chat:v3",
    "deployment": "chat-r12",
    "state": "ready",
    "alert": "",
    "busy": 0.62,
    "in_flight": 5,
    "slots": 8,
    "queue_depth": 0,
    "ttft_p95_seconds": 0.34,
    "restarts": 0,
}


@example(EXAMPLE)
class LiveWorkerSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    cluster = serializers.CharField()
    node = serializers.CharField(help_text="Empty: not placed yet.")
    service = serializers.CharField()
    version = serializers.CharField()
    deployment = serializers.CharField()
    state = serializers.ChoiceField(choices=WorkerState.choices)
    alert = serializers.ChoiceField(choices=Alert.choices)
    busy = serializers.FloatField(allow_null=True, help_text="Share of its slots at work; null: not heard.")
    in_flight = serializers.IntegerField(allow_null=True)
    slots = serializers.IntegerField()
    queue_depth = serializers.IntegerField(allow_null=True)
    ttft_p95_seconds = serializers.FloatField(allow_null=True)
    restarts = serializers.IntegerField()


@example({"workers": [EXAMPLE]})
class LiveWorkersSerializer(serializers.Serializer[Any]):
    workers = LiveWorkerSerializer(many=True)


class LiveWorkers(Endpoint):
    """Workers of the fleet as their last heartbeats told, the busiest first."""

    queryset = Worker.objects.all()
    serializer_class = LiveWorkersSerializer
    pagination_class = None
    parameters: ClassVar = {"show": FILTERS}

    @extend_schema(
        parameters=[
            OpenApiParameter(name, OpenApiTypes.STR, description=f"Only of this {name}.") for name in FILTERS
        ],
    )
    def show(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List workers with their load."""
        asked = {name: value for name in FILTERS if (value := request.query_params.get(name))}
        rows = [
            row
            for row in _rows(selectors.fleet(self.actor))
            if all(row[name] == value for name, value in asked.items())
        ]
        rows.sort(key=lambda row: (-(row["busy"] or 0), row["name"]))
        return Response({"workers": rows})


def _rows(fleet: FleetSnapshot) -> Iterator[dict[str, Any]]:
    for cluster in fleet.clusters:
        nodes = {node.row.pk: node.row.name for node in cluster.nodes}
        for deployment in cluster.deployments:
            for worker in deployment.workers:
                yield {
                    "name": worker.row.name,
                    "cluster": cluster.row.name,
                    "node": nodes.get(worker.row.node_id or 0, ""),
                    "service": deployment.row.service,
                    "version": deployment.row.version_label,
                    "deployment": deployment.row.name,
                    "state": worker.state,
                    "alert": worker.alert,
                    "busy": worker.busy,
                    "in_flight": worker.in_flight,
                    "slots": deployment.row.slots,
                    "queue_depth": worker.queue_depth,
                    "ttft_p95_seconds": worker.ttft_seconds,
                    "restarts": worker.row.restarts,
                }
