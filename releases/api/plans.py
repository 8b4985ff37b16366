from typing import Any, ClassVar

from django.http import Http404
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.states import Right
from common.api.views import CreateEndpoint, DestroyEndpoint, Endpoint, PutEndpoint, RetrieveEndpoint
from common.errors import Conflict
from releases.api.named import team_named
from releases.api.serializers.plans import NewPlanSerializer, PlanChangeSerializer, PlanSerializer
from releases.models import Plan
from releases.plans.plan import plan_schema
from releases.selectors.plans import plans_for
from releases.services.plan import delete_plan, save_plan


class Plans(Endpoint):
    """Release plans: the built-in ones, and those of your teams."""

    queryset = Plan.objects.select_related("team")
    serializer_class = PlanSerializer
    lookup_field = "name"
    lookup_url_kwarg = "plan"
    lookup_value_converter = "str"


OF_TEAM = OpenApiParameter("team", str, description="Owner, if several teams have a plan of this name.")


@extend_schema_view(
    retrieve=extend_schema(parameters=[OF_TEAM]),
    update=extend_schema(parameters=[OF_TEAM]),
    destroy=extend_schema(parameters=[OF_TEAM]),
)
class PlanCollection(CreateEndpoint, RetrieveEndpoint, PutEndpoint, DestroyEndpoint, Plans):
    inputs = {"create": NewPlanSerializer, "update": PlanChangeSerializer}
    parameters = dict.fromkeys(("retrieve", "destroy"), ("team",))
    needs: ClassVar = dict.fromkeys(("create", "update", "destroy"), Right.SERVICES_WRITE)

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List release plans; all on one page."""
        rows = plans_for(self.actor)
        return Response(
            {"results": self.get_serializer(rows, many=True).data, "next": None, "previous": None}
        )

    def get_object(self) -> Plan:
        name, team = self.kwargs["plan"], self.request.query_params.get("team")
        found = [plan for plan in plans_for(self.actor) if plan.name == name]
        if team:
            found = [plan for plan in found if plan.team_id and plan.team.name == team]
        if not found:
            raise Http404
        if len(found) > 1:
            teams = ", ".join(sorted(plan.team.name for plan in found if plan.team_id))
            raise Conflict(
                _("Several teams have a plan '%(name)s': %(teams)s. Say whose you mean: ?team=...")
                % {"name": name, "teams": teams}
            )
        return found[0]

    def create_one(self, given: dict[str, Any]) -> Plan:
        team = team_named(self, given.get("team"), Right.SERVICES_WRITE)
        return save_plan(
            actor=self.actor,
            team=team,
            name=given["name"],
            body=given["body"],
            reason=given.get("reason", ""),
        )

    def put_one(self, instance: Plan | None, given: dict[str, Any], expected: int | None) -> Plan:
        name = self.request.query_params.get("team") or given.get("team")
        team = instance.team if instance and instance.pk else team_named(self, name, Right.SERVICES_WRITE)
        return save_plan(
            actor=self.actor,
            team=team,
            name=self.kwargs["plan"],
            body=given["body"],
            expected_revision=expected if instance and instance.pk else None,
            reason=given.get("reason", ""),
        )

    def delete_one(self, instance: Plan, expected: int | None, reason: str) -> None:
        delete_plan(instance, actor=self.actor, reason=reason)

    @extend_schema(responses=OpenApiTypes.OBJECT)
    @action(detail=False, methods=["get"], url_path="schema", url_name="schema")
    def body_schema(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """JSON schema of a plan's body."""
        return Response(plan_schema())
