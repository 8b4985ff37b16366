from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import Team
from accounts.selectors import team_named
from accounts.states import Right
from clusters.selectors import cluster
from common.api.views import CreateEndpoint, DestroyEndpoint, ListEndpoint, RetrieveEndpoint, UpdateEndpoint
from freezes import services
from freezes.api import serializers
from freezes.filters import FreezeFilter
from freezes.models import Freeze
from freezes.selectors import freezes_for


class Freezes(ListEndpoint, CreateEndpoint, RetrieveEndpoint, UpdateEndpoint, DestroyEndpoint):
    """Times in which releases neither start nor advance."""

    queryset = Freeze.objects.all()
    serializer_class = serializers.FreezeSerializer
    filterset_class = FreezeFilter
    lookup_value_converter = "int"
    sort = ("-created_at",)
    inputs: ClassVar = {
        "create": serializers.NewFreezeSerializer,
        "partial_update": serializers.FreezeChangeSerializer,
        "stop": serializers.NewStopSerializer,
    }
    needs: ClassVar = {
        **dict.fromkeys(("create", "partial_update"), Right.FREEZES_WRITE),
        "stop": Right.FREEZES_STOP,
    }

    def visible(self, rows: QuerySet[Freeze]) -> QuerySet[Freeze]:
        return freezes_for(self.actor)

    def create_one(self, given: dict[str, Any]) -> Freeze:
        return services.create_freeze(actor=self.actor, team=self._owner(given), **_named(given))

    def change_one(self, instance: Freeze, given: dict[str, Any], expected: int | None) -> Freeze:
        return services.change_freeze(instance, actor=self.actor, expected=expected, **_named(given))

    def delete_one(self, instance: Freeze, expected: int | None, reason: str) -> None:
        services.remove_freeze(instance, actor=self.actor, reason=reason, expected=expected)

    @extend_schema(responses={201: serializers.FreezeSerializer})
    @action(detail=False, methods=["post"])
    def stop(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Stop the line: no release starts or advances until the stop is deleted; rollbacks go on."""
        given = self.given()
        row = services.stop_releases(actor=self.actor, team=self._owner(given), reason=given["reason"])
        return self.answer(row, status=201)

    def _owner(self, given: dict[str, Any]) -> Team | None:
        name = given.pop("team", None)
        return team_named(self.actor, name) if name else None


def _named(given: dict[str, Any]) -> dict[str, Any]:
    """Put the row of the cluster in the place of its name."""
    name = given.get("cluster")
    return {**given, "cluster": cluster(name)} if name else given
