"""Statistics of healing, and what an hour of a GPU costs."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.permissions import InstallationRight
from accounts.states import Right
from common.api import problems
from common.api.views import Endpoint
from gpu_health.api import statistics_serializers as serializers
from gpu_health.api.statistics_documents import document_of
from gpu_health.filters import SPANS, StatisticsFilter
from gpu_health.incident_statistics import StatisticsResult, prices, statistics
from gpu_health.models import GpuPrices, Incident
from gpu_health.questions import question_of
from gpu_health.services.prices import set_prices
from gpu_health.statistics_csv import csv_of

ASKED = [
    OpenApiParameter(
        "span",
        enum=[value for value, _label in SPANS],
        description="How far back, where `since` is not given; `30d`.",
    ),
    OpenApiParameter("since", OpenApiTypes.DATETIME, description="From this moment on."),
    OpenApiParameter("until", OpenApiTypes.DATETIME, description="Before this moment; now."),
    OpenApiParameter("cluster", description="Name of the cluster."),
    OpenApiParameter("gpu_model", description="Part of the name of the GPU model; case-insensitive."),
    OpenApiParameter("fault", description="Such as `xid.79`."),
]
NAMES = tuple(one.name for one in ASKED)


class Statistics(Endpoint):
    """Statistics of how fast faults are found and machines come back, and of their costs."""

    queryset = Incident.objects.all()
    serializer_class = serializers.GpuStatisticsSerializer
    parameters: ClassVar = {"list": NAMES, "export": NAMES}
    pagination_class = None

    @extend_schema(
        parameters=ASKED,
        responses={200: serializers.GpuStatisticsSerializer},
        operation_id="gpu_statistics",
    )
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Get the statistics of the machines that you may see. Drills are left out."""
        return Response(self.get_serializer(document_of(self._answer())).data)

    @extend_schema(parameters=ASKED, responses={(200, "text/csv"): OpenApiTypes.STR})
    @action(detail=False, methods=["get"], filter_backends=[])
    def export(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        """The incidents that were counted, as CSV: one line each."""
        return HttpResponse("".join(csv_of(self._answer())), content_type="text/csv; charset=utf-8")

    def _answer(self) -> StatisticsResult:
        chosen = StatisticsFilter(self.request.query_params, queryset=Incident.objects.none())
        if not chosen.form.is_valid():
            raise ValidationError(problems.flattened(chosen.form.errors))
        return statistics(self.actor, question_of(chosen.form.cleaned_data))


class Prices(Endpoint):
    """The price of an hour of a GPU, by model and cluster."""

    queryset = GpuPrices.objects.none()
    serializer_class = serializers.GpuPricesSerializer
    inputs: ClassVar = {"change": serializers.GpuPricesChangeSerializer}
    pagination_class = None
    needs: ClassVar = {"change": InstallationRight(Right.FLEET_OPERATE)}

    def visible(self, rows: QuerySet[GpuPrices]) -> QuerySet[GpuPrices]:
        return rows

    @extend_schema(responses={200: serializers.GpuPricesSerializer}, operation_id="gpu_prices")
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Get the prices."""
        return self.answer(prices())

    @extend_schema(responses={200: serializers.GpuPricesSerializer})
    @action(detail=False, methods=["post"])
    def change(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Set the prices, all of them. Requires `fleet.operate` in the whole installation."""
        given = self.given()
        expected = given.pop("revision", None)
        return self.answer(set_prices(actor=self.actor, expected=expected, **given))
