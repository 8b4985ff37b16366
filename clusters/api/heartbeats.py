"""`POST heartbeats/`: for workers on machines without an agent; those with one are in its `node-reports/`.

Every worker of a cluster may call it every second: by the short way.
"""

from typing import ClassVar, cast

from asgiref.sync import async_to_sync
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from accounts.actors import KnownActor, of_request
from accounts.states import Right
from clusters.api.fast_ingest import IngestEndpoint, receipt_json
from clusters.api.report_serializers import HeartbeatReceiptSerializer, HeartbeatsSerializer
from clusters.services.heartbeats import Reporter, accept_heartbeats, reporter_of
from common.api.json import loads


async def take(reporter: Reporter, body: bytes) -> bytes:
    return receipt_json(await accept_heartbeats(loads(body), reporter=reporter), entry_name="worker")


ENDPOINT = IngestEndpoint("/api/v1/heartbeats/", reporter_of, take)


class Heartbeats(APIView):
    serves_reporters = True
    needs: ClassVar = {"post": Right.FLEET_REPORT}

    @extend_schema(
        request=HeartbeatsSerializer,
        responses=HeartbeatReceiptSerializer,
        operation_id="report_heartbeats",
    )
    def post(self, request: Request) -> HttpResponse:
        """Workers report busy rates, load and state.

        One heartbeat alone is taken, too. Invalid entries are listed in `refused`; the others are accepted.
        Requires the right `fleet.report`; by the token of a deployment, workers of that one alone.
        """
        reporter = reporter_of(cast("KnownActor", of_request(request._request)))
        content = async_to_sync(take)(reporter, request.body)
        return HttpResponse(content, content_type="application/json")
