from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import Http404
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
from gateway import key_selectors
from gateway.api import serializers
from gateway.filters import AbilityFilter, ClientKeyFilter
from gateway.models import AbilityRoute, ClientKey, Gateway, Route
from gateway.services import gateways
from gateway.services.abilities import create_ability, remove_ability
from gateway.services.client_keys import create_key, demand_key, revoke_key


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


class ClientKeys(ListEndpoint, CreateEndpoint, RetrieveEndpoint, DestroyEndpoint):
    """Keys with which clients use services of a team through a gateway. Deleting one revokes it."""

    queryset = ClientKey.objects.all()
    serializer_class = serializers.ClientKeySerializer
    filterset_class = ClientKeyFilter
    inputs = {"create": serializers.NewClientKeySerializer}
    outputs = {"create": serializers.IssuedClientKeySerializer}
    secret_answers = frozenset({"create"})
    lookup_url_kwarg = "id"
    lookup_value_converter = "int"
    sort = ("name", "-created_at", "expires_at")
    needs: ClassVar = dict.fromkeys(("create", "destroy"), Right.SERVICES_WRITE)

    def visible(self, rows: QuerySet[ClientKey]) -> QuerySet[ClientKey]:
        return super().visible(rows).select_related("team")

    def create_one(self, given: dict[str, Any]) -> ClientKey:
        team = team_named(self.actor, given.pop("team"))
        issued = create_key(actor=self.actor, team=team, **given)
        # The one answer that holds it; the row keeps only a hash.
        issued.key.key = issued.text  # type: ignore[attr-defined]
        return issued.key

    def delete_one(self, instance: ClientKey, expected: int | None, reason: str) -> None:
        revoke_key(instance, actor=self.actor, reason=reason)


@extend_schema(parameters=[OpenApiParameter("service", OpenApiTypes.STR, OpenApiParameter.PATH)])
class ServiceClientAccess(RetrieveEndpoint, PutEndpoint):
    """Whether the gateway answers for a service to clients with a key alone."""

    queryset = Route.objects.all()
    serializer_class = serializers.ClientAccessSerializer
    inputs = {"update": serializers.ClientAccessPutSerializer}
    pagination_class = None
    needs: ClassVar = {"update": Right.SERVICES_WRITE}

    def visible(self, rows: QuerySet[Route]) -> QuerySet[Route]:
        names = [row.service for row in key_selectors.routes_of_services(self.actor)]
        return rows.filter(service__in=names, service=self.kwargs["service"])

    def get_object(self) -> Route:
        found: Route = get_object_or_404(self.get_queryset())
        return found

    def put_one(self, instance: Route | None, given: dict[str, Any], expected: int | None) -> Route:
        if instance is None:
            raise Http404
        return demand_key(
            instance.service,
            actor=self.actor,
            demanded=given["requires_key"],
            reason=given.get("reason", ""),
        )


GATEWAY = Gateways.as_view({"get": "retrieve", "put": "update", "delete": "destroy"})
CLIENT_ACCESS = ServiceClientAccess.as_view({"get": "retrieve", "put": "update"})
