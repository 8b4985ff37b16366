"""How many GPUs machines have, and must have."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.states import Right
from clusters.models import Node
from clusters.states import NodeState
from common.api.examples import example
from common.api.views import ListEndpoint
from common.audit import MAX_REASON
from gpu_health.api import examples
from gpu_health.api.machines import machine_of
from gpu_health.models import GpuCount
from gpu_health.services.gpu_counts import MOST_GPUS, expect_gpus


@example(examples.GPU_COUNT)
class GpuCountSerializer(serializers.ModelSerializer[GpuCount]):
    node = serializers.CharField(source="node.name")
    cluster = serializers.CharField(source="node.cluster.name")
    expected = serializers.IntegerField()
    present = serializers.DictField(child=serializers.IntegerField(), help_text="By cluster and agent.")
    fixed = serializers.IntegerField(
        allow_null=True, help_text="By a person; null: labels and counts say it."
    )

    class Meta:
        model = GpuCount
        fields = (
            "node",
            "cluster",
            "expected",
            "present",
            "fixed",
            "fixed_by",
            "fixed_reason",
            "short_since",
        )


@example(examples.EXPECTED_GPUS)
class ExpectedGpusSerializer(serializers.Serializer[Any]):
    node = serializers.CharField(max_length=253, help_text="Name of the machine.")
    cluster = serializers.CharField(
        max_length=63, required=False, help_text="Where several clusters have a machine of the name."
    )
    count = serializers.IntegerField(
        min_value=0, max_value=MOST_GPUS, allow_null=True, help_text="Null: what labels and counts say."
    )
    reason = serializers.CharField(max_length=MAX_REASON)


class GpuCounts(ListEndpoint):
    """The number of GPUs that machines show, and the number that they must have."""

    queryset = GpuCount.objects.select_related("node__cluster__team")
    serializer_class = GpuCountSerializer
    inputs: ClassVar = {"expect": ExpectedGpusSerializer}
    sort = ("node__name", "pk")
    needs: ClassVar = {"expect": Right.FLEET_OPERATE}

    def visible(self, rows: QuerySet[GpuCount]) -> QuerySet[GpuCount]:
        nodes = Node.objects.for_actor(self.actor).exclude(state=NodeState.GONE)
        return rows.filter(node__in=nodes)

    @extend_schema(responses={200: GpuCountSerializer})
    @action(detail=False, methods=["post"])
    def expect(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Say how many GPUs a machine must have. Requires the right `fleet.operate`."""
        given = self.given()
        node = machine_of(self.actor, given.pop("node"), given.pop("cluster", ""))
        return Response(self.get_serializer(expect_gpus(actor=self.actor, node=node, **given)).data)
