"""`POST heartbeats/`: for workers on machines without an agent; those with one are in its `node-reports/`."""

import orjson
from asgiref.sync import async_to_sync
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import ParseError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts.actors import of_request
from accounts.services.rights import require
from accounts.states import Right
from clusters.api.serializers import HeartbeatReceiptSerializer, HeartbeatsSerializer
from clusters.services.heartbeats import accept_heartbeats


class Heartbeats(APIView):
    @extend_schema(
        request=HeartbeatsSerializer,
        responses=HeartbeatReceiptSerializer,
        operation_id="report_heartbeats",
    )
    def post(self, request: Request) -> Response:
        """Workers report busy rates, load and state.

        Invalid entries are listed in `refused`; the others are accepted. Requires the right `fleet.report`.
        """
        actor = of_request(request._request)
        require(actor, Right.FLEET_REPORT)
        try:
            document = orjson.loads(request.body)
        except orjson.JSONDecodeError as error:
            raise ParseError(f"The body is not JSON: {error}.") from None
        receipt = async_to_sync(accept_heartbeats)(document, actor=actor)
        refused = [{"worker": one.entry, "reason": one.reason} for one in receipt.refused]
        return Response({"accepted": receipt.accepted, "refused": refused})
