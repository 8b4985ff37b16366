"""What a load generator in a cluster asks of the control plane, by the token of its run."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from benchmarks import load_orders, load_results, load_tokens
from benchmarks.api.serializers import SCENARIO
from benchmarks.models import BenchmarkRun
from common.api.examples import example
from common.api.views import Endpoint
from common.errors import Conflict
from common.jobs.steps import CannotStart


@example(
    {
        "scenario": SCENARIO,
        "addresses": ["http://10.0.0.7:8000"],
        "model": "chat:v1",
        "price_per_hour": 2.5,
        "system": {"exporters": {"http://10.0.0.7:9100/metrics": "gpu-1"}},
        "engine": "builtin",
    }
)
class LoadOrderSerializer(serializers.Serializer[Any]):
    scenario = serializers.DictField()
    addresses = serializers.ListField(child=serializers.CharField(), help_text="Servers to load, in turn.")
    model = serializers.CharField(help_text="Its name in requests.")
    price_per_hour = serializers.FloatField(allow_null=True, help_text="Price of the GPUs that serve.")
    system = serializers.DictField(help_text="Machines by the address of their exporter.")
    engine = serializers.CharField(help_text="Load engine.")


@example({"stage": "measure", "window": 0, "rate": 2.0})
class LoadProgressSerializer(serializers.Serializer[Any]):
    stage = serializers.CharField(max_length=30)
    window = serializers.IntegerField(min_value=0)
    rate = serializers.FloatField(min_value=0)


@example({"engine": "builtin", "summaries": [], "heads": []})
class LoadResultSerializer(serializers.Serializer[Any]):
    engine = serializers.CharField(max_length=30, required=False)
    summaries = serializers.ListField(
        child=serializers.DictField(), required=False, help_text="Figures of each window."
    )
    heads = serializers.ListField(child=serializers.DictField(), required=False)
    system = serializers.DictField(required=False, help_text="System figures over its time.")
    failed = serializers.CharField(required=False, help_text="Why there are no figures.")


class LoadOrder(Endpoint):
    """The order of a benchmark run's load generator, and what comes of it. Requires the right
    `benchmarks.load`, by the run's token."""

    serves_reporters = True
    queryset = BenchmarkRun.objects.all()
    serializer_class = LoadOrderSerializer
    pagination_class = None
    inputs = {"tell": LoadProgressSerializer, "hand_in": LoadResultSerializer}

    def visible(self, rows: QuerySet[BenchmarkRun]) -> QuerySet[BenchmarkRun]:
        return rows.none()

    @extend_schema(operation_id="read_load_order")
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Read the scenario and the addresses of the servers."""
        try:
            order = load_orders.order_of(load_tokens.run_of(self.actor))
            return Response(self.get_serializer(order).data)
        except CannotStart as error:
            raise Conflict(str(error)) from None

    @extend_schema(operation_id="report_load_progress", request=LoadProgressSerializer, responses={204: None})
    def tell(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Say how far it is."""
        load_results.take_progress(load_tokens.run_of(self.actor), self.given())
        return Response(status=204)

    @extend_schema(
        operation_id="upload_load_records",
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses={204: None},
    )
    def keep(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Upload the records of the requests, compressed."""
        load_results.take_records(load_tokens.run_of(self.actor), request._request)
        return Response(status=204)

    @extend_schema(operation_id="report_load_result", request=LoadResultSerializer, responses={204: None})
    def hand_in(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Hand in the figures of its windows, or why there are none."""
        load_results.take_result(load_tokens.run_of(self.actor), self.given())
        return Response(status=204)
