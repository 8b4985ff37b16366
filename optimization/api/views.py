from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.selectors import team_named
from accounts.states import Right
from common.api.views import CreateEndpoint, ListEndpoint, RetrieveEndpoint
from optimization import documents, planning, services
from optimization.api import serializers
from optimization.filters import OptimizationRunFilter
from optimization.models import OptimizationRun
from optimization.recipes import recipes


class Optimizations(ListEndpoint, CreateEndpoint, RetrieveEndpoint):
    """Runs of recipes: a parent version in, a judged version out."""

    queryset = OptimizationRun.objects.all()
    serializer_class = serializers.OptimizationSerializer
    filterset_class = OptimizationRunFilter
    lookup_url_kwarg = "optimization"
    lookup_value_converter = "int"
    sort = ("-created_at", "name")
    inputs: ClassVar = {
        "create": serializers.NewOptimizationSerializer,
        "batch": serializers.OptimizationBatchRequestSerializer,
        "preview": serializers.OptimizationPlanRequestSerializer,
        "cancel": serializers.OptimizationCancelSerializer,
    }
    outputs: ClassVar = {
        "retrieve": serializers.OptimizationDetailSerializer,
        "cancel": serializers.OptimizationSerializer,
    }
    needs: ClassVar = dict.fromkeys(("create", "batch", "preview", "cancel"), Right.OPTIMIZATIONS_WRITE)

    def visible(self, rows: Any) -> Any:
        return super().visible(rows).select_related("team", "parent__model", "child__model")

    def create_one(self, given: dict[str, Any]) -> OptimizationRun:
        team = team_named(self.actor, given.pop("team"))
        return services.start_run(actor=self.actor, team=team, **given)

    @extend_schema(responses={201: serializers.OptimizationBatchSerializer})
    @action(detail=False, methods=["post"])
    def batch(self, request: Request) -> Response:
        """Start several recipes on one version, with a budget if one is given."""
        given = self.given()
        team = team_named(self.actor, given.pop("team"))
        rows = services.start_batch(actor=self.actor, team=team, **given)
        shown = serializers.OptimizationBatchSerializer({"batch": rows[0].batch, "runs": rows})
        return Response(shown.data, status=201)

    @extend_schema(responses={200: serializers.OptimizationPlanSerializer})
    @action(detail=False, methods=["post"])
    def preview(self, request: Request) -> Response:
        """Memory, disk and time that a run would need; nothing starts."""
        given = self.given()
        team = team_named(self.actor, given.pop("team"))
        return Response(documents.plan_document(planning.plan_run(actor=self.actor, team=team, **given)))

    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Stop it; a version that is ready stays."""
        return self.answer(services.cancel_run(self.get_object(), actor=self.actor, **self.given()))

    @extend_schema(responses={200: serializers.OptimizationRecipesSerializer}, filters=False)
    @action(detail=False, methods=["get"], pagination_class=None)
    def recipes(self, request: Request) -> Response:
        """The installed recipes."""
        return Response({"recipes": [documents.recipe_document(one) for one in recipes().values()]})
