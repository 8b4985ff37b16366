from typing import Any, ClassVar

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils.functional import cached_property
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema

from accounts.states import Right
from clusters.models import Cluster
from common.api.views import DestroyEndpoint, PutEndpoint, RetrieveEndpoint, WhyRemoved
from gateway.api import serializers
from gateway.models import Gateway
from gateway.services import gateways


@extend_schema(parameters=[OpenApiParameter("cluster", OpenApiTypes.STR, OpenApiParameter.PATH)])
class Gateways(RetrieveEndpoint, PutEndpoint, DestroyEndpoint):
    """The gateway that splits the traffic of a cluster; 404: it has none."""

    queryset = Gateway.objects.select_related("cluster")
    serializer_class = serializers.GatewaySerializer
    inputs = {"update": serializers.GatewayPutSerializer}
    pagination_class = None
    why = WhyRemoved
    needs: ClassVar = dict.fromkeys(("update", "destroy"), Right.FLEET_OPERATE)

    @cached_property
    def cluster(self) -> Cluster:
        found: Cluster = get_object_or_404(Cluster.objects.for_actor(self.actor), name=self.kwargs["cluster"])
        return found

    def visible(self, rows: QuerySet[Gateway]) -> QuerySet[Gateway]:
        return rows.filter(cluster=self.cluster)

    def get_object(self) -> Gateway:
        found: Gateway = get_object_or_404(self.get_queryset())
        return found

    def put_one(self, instance: Gateway | None, given: dict[str, Any], expected: int | None) -> Gateway:
        return gateways.set_gateway(actor=self.actor, cluster=self.cluster, expected=expected, **given)

    def delete_one(self, instance: Gateway, expected: int | None, reason: str) -> None:
        gateways.remove_gateway(instance, actor=self.actor, expected=expected, reason=reason)


GATEWAY = Gateways.as_view({"get": "retrieve", "put": "update", "delete": "destroy"})
