"""`POST relay-reports/`: what the relay of every cluster calls every second, by the short way."""

from typing import ClassVar, cast

from asgiref.sync import async_to_sync
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from accounts.actors import KnownActor, of_request
from accounts.states import Right
from clusters.api.fast_ingest import IngestEndpoint
from clusters.api.report_serializers import RelayAnswerSerializer, RelayReportSerializer
from clusters.services.relay_reports import (
    RelayInstructions,
    ReportingRelay,
    accept_relay_report,
    read_told,
    reporting_relay,
)
from common.api.json import dumps, loads


async def take(relay: ReportingRelay, body: bytes, told: RelayInstructions | None = None) -> bytes:
    return dumps(await accept_relay_report(loads(body), relay=relay, told=told))


ENDPOINT = IngestEndpoint("/api/v1/relay-reports/", reporting_relay, take)


class RelayReports(APIView):
    serves_reporters = True
    needs: ClassVar = {"post": Right.FLEET_REPORT}

    @extend_schema(
        request=RelayReportSerializer, responses=RelayAnswerSerializer, operation_id="report_relay"
    )
    def post(self, request: Request) -> HttpResponse:
        """The relay of a cluster reports its workers.

        The answer says who may report to it and which servers it is to read, unless it knows that already.
        Invalid entries are listed in `refused`; the others are accepted. A report that is not newer than the
        last one of its session is refused (409). Requires the right `fleet.report`, by the relay's token.
        """
        relay = reporting_relay(cast("KnownActor", of_request(request._request)))
        content = async_to_sync(take)(relay, request.body, read_told(relay.cluster_id))
        return HttpResponse(content, content_type="application/json")
