"""What the job of a run in a cluster asks of the control plane, by the token of its run."""

from typing import Any

from django.db.models import QuerySet
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from common.api.examples import example
from common.api.ranges import MEDIA_TYPE, ranged
from common.api.views import Endpoint
from model_store.errors import BlobMissing, StoreUnavailable
from optimization import job_orders, job_results, job_tokens
from optimization.models import OptimizationRun

SHA256 = OpenApiParameter("sha256", OpenApiTypes.STR, OpenApiParameter.PATH, description="In hex.")
VERSION = OpenApiParameter("version", OpenApiTypes.INT, OpenApiParameter.PATH, description="Id of an input.")
FILES = [{"path": "model.safetensors", "size": 41_000_000, "sha256": "9f86" * 16}]


@example(
    {
        "program": "optimization.programs.making",
        "family": "compressor",
        "values": {"seed": 0, "parameters": {"group": 128}},
        "paths": {"source": "inputs/12", "output": "output"},
        "inputs": {"12": FILES},
    }
)
class RunOrderSerializer(serializers.Serializer[Any]):
    program = serializers.CharField(help_text="Module that is run.")
    family = serializers.CharField(help_text="Family of recipes whose environment it needs; empty: none.")
    values = serializers.DictField(help_text="What it reads, without the paths.")
    paths = serializers.DictField(help_text="Paths below the job's directory, by name.")
    inputs = serializers.DictField(help_text="Files of versions, by the version's id.")


@example({"stage": "recovering", "done": 3, "total": 100, "memory_bytes": 900_000_000})
class RunProgressSerializer(serializers.Serializer[Any]):
    stage = serializers.CharField(max_length=30)
    done = serializers.IntegerField(min_value=0)
    total = serializers.IntegerField(min_value=0)
    memory_bytes = serializers.IntegerField(min_value=0, required=False)


@example({"result": {"seconds": 12.5, "libraries": {"torch": "2.13.0"}}, "files": FILES})
class RunResultSerializer(serializers.Serializer[Any]):
    result = serializers.DictField(help_text="What the program said, or `refused` with the reason.")
    files = serializers.ListField(child=serializers.DictField(), help_text="What it wrote: all was sent.")


class OptimizationJob(Endpoint):
    """The order of a run's job in a cluster, its inputs, and what comes of it. Requires the right
    `optimizations.run`, by the run's token."""

    serves_reporters = True
    queryset = OptimizationRun.objects.all()
    serializer_class = RunOrderSerializer
    pagination_class = None
    inputs = {"tell": RunProgressSerializer, "hand_in": RunResultSerializer}

    def visible(self, rows: QuerySet[OptimizationRun]) -> QuerySet[OptimizationRun]:
        return rows.none()

    @extend_schema(operation_id="read_optimization_order")
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Read the program and the files of its inputs."""
        run = job_tokens.run_of(self.actor)
        return Response(self.get_serializer(job_orders.order_of(run).document()).data)

    @extend_schema(
        operation_id="download_optimization_input",
        parameters=[VERSION, SHA256],
        responses={
            (200, MEDIA_TYPE): OpenApiResponse(OpenApiTypes.BINARY, description="All of it."),
            (206, MEDIA_TYPE): OpenApiResponse(OpenApiTypes.BINARY, description="The range."),
        },
    )
    def read_input(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Download a file of an input, or a range of it."""
        sha256, run = self.kwargs["sha256"], job_tokens.run_of(self.actor)
        try:
            return ranged(
                request._request,
                job_orders.input_content(run, self.kwargs["version"], sha256),
                etag=f'"{sha256}"',
                size_of=lambda content: content.size,
                read_at=lambda content: content.read_at,
            )
        except BlobMissing as error:
            raise StoreUnavailable(str(error), retry_after_s=30) from None

    @extend_schema(
        operation_id="report_optimization_progress", request=RunProgressSerializer, responses={204: None}
    )
    def tell(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Say how far it is."""
        job_results.take_progress(job_tokens.run_of(self.actor), self.given())
        return Response(status=204)

    @extend_schema(
        operation_id="upload_optimization_file",
        parameters=[SHA256],
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses={204: None},
    )
    def keep(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Upload a file of the output."""
        body = request._request
        size = int(body.headers.get("Content-Length") or 0)
        job_results.take_file(job_tokens.run_of(self.actor), self.kwargs["sha256"], size, body)
        return Response(status=204)

    @extend_schema(
        operation_id="report_optimization_result", request=RunResultSerializer, responses={204: None}
    )
    def hand_in(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Hand in the result, after the files."""
        job_results.take_result(job_tokens.run_of(self.actor), **self.given())
        return Response(status=204)
