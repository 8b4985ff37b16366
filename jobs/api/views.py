import json
from typing import Any, ClassVar

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.states import Right
from common.api.views import CreateEndpoint, ListEndpoint, RetrieveEndpoint
from jobs import selectors, services
from jobs.api.serializers import NewServiceJobSerializer, ServiceJobSerializer
from jobs.filters import ServiceJobFilter
from jobs.models import ServiceJob


class ServiceJobs(ListEndpoint, CreateEndpoint, RetrieveEndpoint):
    """Jobs of services: long work that waits in a queue until a worker takes it."""

    queryset = ServiceJob.objects.all()
    serializer_class = ServiceJobSerializer
    filterset_class = ServiceJobFilter
    inputs: ClassVar = {"create": NewServiceJobSerializer}
    lookup_field = "name"
    lookup_url_kwarg = "job"
    sort = ("-created_at", "name")
    needs: ClassVar = dict.fromkeys(("create", "cancel", "retry"), Right.JOBS_WRITE)

    def visible(self, rows: Any) -> Any:
        return super().visible(rows).select_related("team", "service__stable_version__model")

    def create_one(self, given: dict[str, Any]) -> Any:
        return services.submit_job(
            actor=self.actor,
            service=selectors.service_named(self.actor, given["service"]),
            path=given["path"],
            body=json.dumps(given.get("body", {})),
        )

    @extend_schema(responses={200: ServiceJobSerializer})
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Cancel a queued or running job."""
        return self.answer(services.cancel_job(self.get_object(), actor=self.actor))

    @extend_schema(responses={200: ServiceJobSerializer})
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Queue a failed or cancelled job again, on the stable version."""
        return self.answer(services.retry_job(self.get_object(), actor=self.actor))

    @extend_schema(responses={(200, "*/*"): OpenApiTypes.BINARY})
    @action(detail=True, methods=["get"])
    def result(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        """Download the result of a job that is over, while it is kept."""
        row: ServiceJob = self.get_object()
        media_type, body = selectors.result_of(row)
        answer = HttpResponse(body, content_type=media_type)
        # Of the team's code: no page of ours.
        answer["Content-Disposition"] = f'attachment; filename="{row.name}"'
        answer["X-Content-Type-Options"] = "nosniff"
        return answer
