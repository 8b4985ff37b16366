"""`POST node-reports/`: what the agent of every machine calls every second, by the short way."""

from typing import ClassVar, cast

from asgiref.sync import async_to_sync
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from accounts.actors import KnownActor, of_request
from accounts.states import Right
from clusters.api.fast_ingest import IngestEndpoint, receipt_json
from clusters.api.report_serializers import NodeReportSerializer, ReceiptSerializer
from clusters.services.node_reports import ReportingAgent, accept_report, reporting_agent
from common.api.json import loads


async def take(agent: ReportingAgent, body: bytes) -> bytes:
    return receipt_json(await accept_report(loads(body), agent=agent), entry_name="entry")


ENDPOINT = IngestEndpoint("/api/v1/node-reports/", reporting_agent, take)


class NodeReports(APIView):
    serves_reporters = True

    """The same endpoint, where Django is asked."""

    needs: ClassVar = {"post": Right.FLEET_REPORT}

    @extend_schema(request=NodeReportSerializer, responses=ReceiptSerializer, operation_id="report_node")
    def post(self, request: Request) -> HttpResponse:
        """The agent of a machine reports it, with all its workers and devices.

        Invalid entries are listed in `refused`; the others are accepted. A report that is not newer than the
        last one of its session, or whose session another one has replaced, is refused (409) and changes
        nothing. Requires the right `fleet.report`, by a token of this machine.
        """
        agent = reporting_agent(cast("KnownActor", of_request(request._request)))
        content = async_to_sync(take)(agent, request.body)
        return HttpResponse(content, content_type="application/json")
