from typing import Any, ClassVar

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.selectors import team_named
from accounts.states import Right
from benchmarks import documents, planning, services
from benchmarks.api import serializers
from benchmarks.filters import BenchmarkFilter
from benchmarks.models import Benchmark, BenchmarkCell
from common.api.views import CreateEndpoint, ListEndpoint, RetrieveEndpoint


class Benchmarks(ListEndpoint, CreateEndpoint, RetrieveEndpoint):
    """Benchmarks of configurations of a deployment."""

    queryset = Benchmark.objects.all()
    serializer_class = serializers.BenchmarkSerializer
    filterset_class = BenchmarkFilter
    lookup_url_kwarg = "benchmark"
    lookup_value_converter = "int"
    sort = ("-created_at", "name")
    inputs: ClassVar = {
        "create": serializers.NewBenchmarkSerializer,
        "preview": serializers.BenchmarkPlanRequestSerializer,
        "cancel": serializers.BenchmarkCancelSerializer,
    }
    outputs: ClassVar = {
        "retrieve": serializers.BenchmarkDetailSerializer,
        "cancel": serializers.BenchmarkSerializer,
    }
    needs: ClassVar = dict.fromkeys(("create", "preview", "cancel"), Right.BENCHMARKS_WRITE)

    def visible(self, rows: Any) -> Any:
        return super().visible(rows).select_related("team", "cluster", "scenario")

    def create_one(self, given: dict[str, Any]) -> Benchmark:
        team = team_named(self.actor, given.pop("team"))
        return services.create_benchmark(actor=self.actor, team=team, **given)

    @extend_schema(responses={200: serializers.BenchmarkPlanSerializer})
    @action(detail=False, methods=["post"])
    def preview(self, request: Request) -> Response:
        """Cells, runs, GPU hours and price of a benchmark, and the cells that cannot run; nothing starts."""
        given = self.given()
        team = team_named(self.actor, given.pop("team"))
        plan = planning.plan_benchmark(actor=self.actor, team=team, **given)
        return Response(documents.plan_document(plan))

    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Stop it and remove all that it runs."""
        return self.answer(services.cancel_benchmark(self.get_object(), actor=self.actor, **self.given()))

    @extend_schema(
        parameters=[
            OpenApiParameter(name, OpenApiTypes.INT, "path", description="A cell of the benchmark.")
            for name in ("ours", "theirs")
        ],
        responses={200: serializers.CellComparisonSerializer},
    )
    @action(detail=True, methods=["get"], url_path="compare/<int:ours>/<int:theirs>")
    def compare(self, request: Request, ours: int, theirs: int, **kwargs: Any) -> Response:
        """Compare two cells by the figures of their valid repeats."""
        cells: QuerySet[BenchmarkCell] = self.get_object().cells.all()
        pair = [get_object_or_404(cells, pk=pk) for pk in (ours, theirs)]
        return Response(documents.comparison_document(*pair))
