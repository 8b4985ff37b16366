from typing import Any, ClassVar

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils.functional import cached_property
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema

from accounts.selectors import team_named
from accounts.states import Right
from clusters.models import Cluster
from common.api.views import (
    CreateEndpoint,
    DestroyEndpoint,
    ListEndpoint,
    PutEndpoint,
    RetrieveEndpoint,
    WhyRemoved,
)
from gateway.api import serializers
from gateway.filters import AbilityFilter
from gateway.models import AbilityRoute, Gateway
from gateway.services import gateways
from gateway.services.abilities import create_ability, remove_ability


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


class Abilities(ListEndpoint, CreateEndpoint, RetrieveEndpoint, DestroyEndpoint):
    """Addresses of abilities: requests go to the workers of several services."""

    queryset = AbilityRoute.objects.all()
    serializer_class = serializers.AbilitySerializer
    filterset_class = AbilityFilter
    inputs = {"create": serializers.NewAbilitySerializer}
    lookup_field = "name"
    lookup_url_kwarg = "ability"
    sort = ("name",)
    needs: ClassVar = dict.fromkeys(("create", "destroy"), Right.SERVICES_WRITE)

    def visible(self, rows: QuerySet[AbilityRoute]) -> QuerySet[AbilityRoute]:
        return super().visible(rows).select_related("team", "gateway__cluster")

    def create_one(self, given: dict[str, Any]) -> AbilityRoute:
        team = team_named(self.actor, given.pop("team"))
        return create_ability(actor=self.actor, team=team, **given)

    def delete_one(self, instance: AbilityRoute, expected: int | None, reason: str) -> None:
        remove_ability(instance, actor=self.actor, reason=reason)


GATEWAY = Gateways.as_view({"get": "retrieve", "put": "update", "delete": "destroy"})
