"""The figures that the pages of charts draw."""

from typing import Any, ClassVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from charts.subjects import KINDS, charts_of, subject_named
from charts.time_range import DEFAULT, LENGTHS, LONG_LENGTHS, times_of
from clusters.models import FleetDay
from common import clock
from common.api.examples import example
from common.api.views import Endpoint
from common.errors import Invalid, Unavailable
from gateway.errors import GatewayError

AT = "2026-11-27T10:00:00Z"
LINE = {"name": "chat-r12-0", "values": [0.62]}
CHART = {"name": "busy", "title": "Busy", "unit": "percent", "moments": [AT], "lines": [LINE]}
MARK = {"name": "Release #12 of v3 starts", "at": "2026-11-27T09:41:07Z"}
FIGURES = {
    "title": "chat-r12-0",
    "since": "2026-11-27T09:00:00Z",
    "until": AT,
    "step_seconds": 60,
    "charts": [CHART],
    "marks": [MARK],
}


@example(LINE)
class ChartLineSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    values = serializers.ListField(
        child=serializers.FloatField(allow_null=True), help_text="One per moment; null: not known."
    )


@example(CHART)
class ChartSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    title = serializers.CharField()
    unit = serializers.CharField(help_text="percent: shares from 0 to 1.")
    moments = serializers.ListField(child=serializers.DateTimeField(), help_text="Ends of the steps.")
    lines = ChartLineSerializer(many=True, source="series")


@example(MARK)
class ChartMarkSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    at = serializers.DateTimeField()


@example(FIGURES)
class ChartFiguresSerializer(serializers.Serializer[Any]):
    title = serializers.CharField()
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    step_seconds = serializers.IntegerField()
    charts = ChartSerializer(many=True)
    marks = ChartMarkSerializer(many=True, help_text="Releases, incidents, changes of the number of workers.")


class ChartFigures(Endpoint):
    """History of a service, version, worker, machine, GPU or cluster, as its page of charts shows it."""

    queryset = FleetDay.objects.all()
    serializer_class = ChartFiguresSerializer
    pagination_class = None
    parameters: ClassVar = {"show": ("range", "from", "to")}

    @extend_schema(
        parameters=[
            OpenApiParameter("kind", OpenApiTypes.STR, OpenApiParameter.PATH, enum=KINDS),
            OpenApiParameter(
                "name",
                OpenApiTypes.STR,
                OpenApiParameter.PATH,
                description="Of a version its deployment; of a machine or GPU its id.",
            ),
            OpenApiParameter(
                "range",
                description=f"Up to now, {', '.join((*LENGTHS, *LONG_LENGTHS))}; default: {DEFAULT}. "
                "Those beyond 30 days where a Prometheus is set.",
            ),
            OpenApiParameter("from", OpenApiTypes.DATETIME, description="Begin, instead of a range."),
            OpenApiParameter("to", OpenApiTypes.DATETIME, description="End; default: now."),
        ],
    )
    def show(self, request: Request, kind: str, name: str) -> Response:
        """Return the figures of a stretch of time with marks of what happened."""
        subject = subject_named(kind, name, self.actor)
        times = times_of(request.query_params, now=clock.now())
        if times.problem:
            wrong = "from" if {"from", "to"} & request.query_params.keys() else "range"
            raise Invalid(fields={wrong: [times.problem]})
        try:
            found = charts_of(subject, self.actor, times)
        except GatewayError as error:
            raise Unavailable(str(error)) from None
        shown = {
            "title": subject.title,
            "since": times.since,
            "until": times.until,
            "step_seconds": int(times.step.total_seconds()),
            "charts": [
                {
                    "name": id_,
                    "title": chart.title,
                    "unit": chart.unit,
                    "moments": chart.moments,
                    "series": chart.series,
                }
                for id_, chart in found
            ],
            "marks": found[0][1].marks,
        }
        return Response(self.get_serializer(shown).data)
