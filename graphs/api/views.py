from typing import Any, ClassVar

from django.db.models import QuerySet
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.selectors import team_named
from accounts.states import Right
from common.api.rows import ReasonSerializer
from common.api.views import CreateEndpoint, ListEndpoint, RetrieveEndpoint, UpdateEndpoint
from graphs import ray_runs, selectors, services
from graphs.api import serializers
from graphs.filters import GraphFilter
from graphs.items import items_of
from graphs.models import Graph, TaskGraphPlan, TaskProfile
from graphs.states import GraphItemState

VERBS = ("pause", "resume", "rollback", "order_profile")


class Graphs(ListEndpoint, CreateEndpoint, RetrieveEndpoint, UpdateEndpoint):
    """Applications as DAGs of tasks."""

    queryset = Graph.objects.select_related("team", "version__model")
    serializer_class = serializers.GraphSerializer
    filterset_class = GraphFilter
    lookup_url_kwarg = "graph"
    lookup_value_converter = "int"
    sort = ("name", "-created_at")
    inputs: ClassVar = {
        "create": serializers.NewGraphSerializer,
        "push": serializers.GraphPushSerializer,
        "partial_update": serializers.GraphChange,
        "retry_item": serializers.RetryItem,
        **dict.fromkeys(VERBS, ReasonSerializer),
        "ray_submit": serializers.RayOrderSerializer,
        "ray_abort": serializers.RayRunName,
    }
    outputs: ClassVar = {
        "retrieve": serializers.GraphDetailSerializer,
        "rollback": serializers.GraphPlanSerializer,
        "ray": serializers.RayRunsSerializer,
        **dict.fromkeys(("ray_submit", "ray_abort"), serializers.RayRunSerializer),
        "items": serializers.GraphItemsSerializer,
        "order_profile": serializers.GraphDetailSerializer,
        "retry_item": serializers.RetriedItem,
    }
    parameters: ClassVar = {"ray": ("cluster",), "items": ("state",)}
    needs: ClassVar = {
        **dict.fromkeys(("create", "push", "partial_update", "retry_item", *VERBS), Right.GRAPHS_WRITE),
        **dict.fromkeys(("ray_submit", "ray_abort"), Right.FLEET_OPERATE),
    }

    def create_one(self, given: dict[str, Any]) -> Graph:
        team = team_named(self.actor, given.pop("team"))
        return services.create_graph(actor=self.actor, team=team, **given)

    def change_one(self, instance: Graph, given: dict[str, Any], expected: int | None) -> Graph:
        return services.change_adaptation(instance, actor=self.actor, expected=expected, **given)

    @extend_schema(
        responses={200: serializers.GraphItemsSerializer},
        parameters=[
            OpenApiParameter(
                "state", str, enum=GraphItemState.values, description="Items in this state alone."
            )
        ],
    )
    @action(detail=True, methods=["get"])
    def items(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List the newest items of the graph's workers, as these keep them."""
        state = request.query_params.get("state", "")
        if state not in ("", *GraphItemState.values):
            said = _("Give one of: %(values)s.") % {"values": ", ".join(GraphItemState.values)}
            raise ValidationError({"state": [said]})
        # The filters of the list know another `state`.
        graph = selectors.graph_of(self.actor, self.kwargs["graph"])
        return Response(self.get_serializer(items_of(graph, state)).data)

    @extend_schema(responses={200: serializers.RetriedItem})
    @action(detail=True, methods=["post"], url_path="items/retry")
    def retry_item(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Run a failed item again at its worker."""
        again = services.retry_item(self.get_object(), actor=self.actor, **self.given())
        return Response(self.get_serializer({"item": again}).data)

    @extend_schema(responses={200: serializers.GraphSerializer})
    @action(detail=True, methods=["post"])
    def push(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Give the graph another version of the registry."""
        return self.answer(services.change_graph(self.get_object(), actor=self.actor, **self.given()))

    @extend_schema(responses={200: serializers.GraphSerializer})
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Freeze the plan: no other one is started."""
        return self._done(services.pause_graph)

    @extend_schema(responses={200: serializers.GraphSerializer})
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Let plans be started again."""
        return self._done(services.resume_graph)

    @extend_schema(responses={200: serializers.GraphDetailSerializer})
    @action(detail=True, methods=["post"], url_path="order-profile")
    def order_profile(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Have an idle worker measure the tasks, with inputs of items that it kept."""
        return self._done(services.order_profile)

    @extend_schema(responses={200: serializers.GraphPlanSerializer})
    @action(detail=True, methods=["post"])
    def rollback(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Start the plan that was active before the present one."""
        return self._done(services.roll_back_plan)

    @extend_schema(
        parameters=[OpenApiParameter("cluster", str, required=True)],
        responses={200: serializers.RayRunsSerializer},
    )
    @action(detail=True, methods=["get"])
    def ray(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Jobs and services of the graph on Ray in a cluster, as that shows them now."""
        cluster = request.query_params.get("cluster", "")
        found = ray_runs.runs(self.get_object(), cluster=cluster)
        return Response(serializers.RayRunsSerializer({"runs": found}).data)

    @extend_schema(responses={200: serializers.RayRunSerializer})
    @action(detail=True, methods=["post"], url_path="ray/submit")
    def ray_submit(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Run the graph by its active plan on Ray in a cluster that has KubeRay."""
        made = ray_runs.submit(self.get_object(), actor=self.actor, **self.given())
        return Response(serializers.RayRunSerializer(made).data)

    @extend_schema(responses={200: serializers.RayRunSerializer})
    @action(detail=True, methods=["post"], url_path="ray/abort")
    def ray_abort(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Remove a job or service with its Ray cluster."""
        ended = ray_runs.abort(self.get_object(), actor=self.actor, **self.given())
        return Response(serializers.RayRunSerializer(ended).data)

    def _done(self, deed: Any) -> Response:
        reason = self.given().get("reason", "")
        return self.answer(deed(self.get_object(), actor=self.actor, reason=reason))


class OfOneGraph(ListEndpoint, CreateEndpoint):
    """Rows of the graph in the address."""

    def visible(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.filter(graph=self.graph)

    @cached_property
    def graph(self) -> Graph:
        return selectors.graph_of(self.actor, self.kwargs["graph"])


class TaskProfiles(OfOneGraph):
    """Profiles of the tasks of a graph on each kind of machine."""

    queryset = TaskProfile.objects.select_related("graph")
    serializer_class = serializers.TaskProfileSerializer
    sort = ("task", "option")
    inputs: ClassVar = {"create": serializers.ProfileReport}
    needs: ClassVar = {"create": Right.GRAPHS_WRITE}

    def create_one(self, given: dict[str, Any]) -> TaskProfile:
        return services.record_profile(self.graph, actor=self.actor, **given)[-1]


class GraphPlans(OfOneGraph, RetrieveEndpoint):
    """Plans of a graph: ordered, computed, started, replaced."""

    queryset = TaskGraphPlan.objects.select_related("graph__team")
    serializer_class = serializers.GraphPlanSerializer
    lookup_url_kwarg = "plan"
    lookup_value_converter = "int"
    sort = ("-created_at",)
    inputs: ClassVar = {"create": serializers.PlanWish, "start": ReasonSerializer}
    needs: ClassVar = dict.fromkeys(("create", "start"), Right.GRAPHS_WRITE)

    def create_one(self, given: dict[str, Any]) -> TaskGraphPlan:
        return services.order_plan(self.graph, actor=self.actor, **given)

    @extend_schema(responses={200: serializers.GraphPlanSerializer})
    @action(detail=True, methods=["post"])
    def start(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Make it the graph's active plan."""
        reason = self.given().get("reason", "")
        return self.answer(services.start_plan(self.get_object(), actor=self.actor, reason=reason))
