from typing import Any, ClassVar

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from accounts.states import Right
from common.api.views import CreateEndpoint, DestroyEndpoint, ListEndpoint, RetrieveEndpoint, UpdateEndpoint
from objectives import services
from objectives.api import serializers
from objectives.errors import InvalidObjective
from objectives.filters import ObjectiveFilter
from objectives.models import ServiceObjective
from objectives.selectors import objectives_for
from releases.models import Service


class Objectives(ListEndpoint, CreateEndpoint, RetrieveEndpoint, UpdateEndpoint, DestroyEndpoint):
    """Service level objectives with their error budgets."""

    queryset = ServiceObjective.objects.all()
    serializer_class = serializers.ObjectiveSerializer
    filterset_class = ObjectiveFilter
    lookup_value_converter = "int"
    sort = ("name", "-created_at")
    inputs: ClassVar = {
        "create": serializers.NewObjectiveSerializer,
        "partial_update": serializers.ObjectiveChangeSerializer,
    }
    needs: ClassVar = dict.fromkeys(("create", "partial_update"), Right.SERVICES_WRITE)

    def visible(self, rows: QuerySet[ServiceObjective]) -> QuerySet[ServiceObjective]:
        return objectives_for(self.actor)

    def create_one(self, given: dict[str, Any]) -> ServiceObjective:
        service = Service.objects.for_actor(self.actor).filter(name=given.pop("service")).first()
        if service is None:
            raise InvalidObjective(
                fields={"service": [_("There is no such service, or you may not see it.")]}
            )
        if given.pop("team", service.team.name) != service.team.name:
            raise InvalidObjective(
                fields={"team": [_("The service belongs to team %(team)s.") % {"team": service.team}]}
            )
        return services.create_objective(actor=self.actor, service=service, **given)

    def change_one(
        self, instance: ServiceObjective, given: dict[str, Any], expected: int | None
    ) -> ServiceObjective:
        return services.change_objective(instance, actor=self.actor, expected=expected, **given)

    def delete_one(self, instance: ServiceObjective, expected: int | None, reason: str) -> None:
        services.delete_objective(instance, actor=self.actor, reason=reason, expected=expected)
