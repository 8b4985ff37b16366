"""Where providers of machines announce what they will do to them, or what has befallen them."""

from typing import Any, ClassVar

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ParseError
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import AnonRateThrottle
from rest_framework.views import APIView

from accounts.actors import of_request
from accounts.states import Right
from common.api.examples import example
from common.api.json import loads
from gpu_health.api import examples
from gpu_health.services import sns
from gpu_health.services.provider_events import EventReceipt, accept_events
from identity.api.signed_push import SignedPushAuthentication

MACHINE = OpenApiParameter(
    "machine", str, description="Of events that name none, such as a machine's own list of scheduled events."
)
CLUSTER = OpenApiParameter("cluster", str, description="Where to look for the machine.")
MAX_NAME = 400


class EventRefusalSerializer(serializers.Serializer[Any]):
    event = serializers.CharField(help_text="As the provider calls it.")
    reason = serializers.CharField()


@example(examples.EVENTS_STORED)
class EventReceiptSerializer(serializers.Serializer[EventReceipt]):
    stored = serializers.IntegerField()
    known = serializers.IntegerField(help_text="That came before.")
    refused = EventRefusalSerializer(many=True)


@example(examples.EVENT)
class ProviderEventsSerializer(serializers.Serializer[Any]):
    events = serializers.ListField(
        child=serializers.DictField(),
        help_text="Each with id, machine, fault (provider.maintenance, provider.host_failure or "
        "provider.redeploy) and, if known, begins_at, state and says. The forms of AWS, Azure, Google Cloud "
        "and Volcengine are taken as they are.",
    )


class ProviderEvents(APIView):
    """Events of providers, by a token or by one that the provider has signed."""

    authentication_classes = (SignedPushAuthentication,)
    serves_reporters = True
    needs: ClassVar = {"post": Right.FLEET_EVENTS}

    @extend_schema(
        request=ProviderEventsSerializer,
        responses=EventReceiptSerializer,
        parameters=[MACHINE, CLUSTER],
        operation_id="report_provider_events",
    )
    def post(self, request: Request) -> Response:
        """Report what a provider does to machines, in the provider's own form or in ours.

        Each event counts once. Events of machines that are not known are listed in `refused`; the others are
        stored. Requires the right `fleet.events`. A Pub/Sub subscription sends its own token: see
        docs/GPU_HEALTH.md.
        """
        unknown = sorted(set(request.query_params) - {"machine", "cluster"})
        if unknown:
            raise serializers.ValidationError(
                {name: ["There is no such parameter. Known: machine, cluster."] for name in unknown}
            )
        receipt = accept_events(
            actor=of_request(request._request),
            document=_document(request),
            machine=request.query_params.get("machine", "")[:MAX_NAME],
            cluster=request.query_params.get("cluster", "")[:MAX_NAME],
        )
        return Response(EventReceiptSerializer(receipt).data)


class SnsThrottle(AnonRateThrottle):
    rate = "120/min"

    def get_cache_key(self, request: Request, view: Any) -> str:
        return f"sns:{request.META.get('REMOTE_ADDR', '')}"


class SnsMessages(APIView):
    """Messages of Amazon SNS, judged by their signature."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    throttle_classes = (SnsThrottle,)

    @extend_schema(
        request={"text/plain": str},
        responses=EventReceiptSerializer,
        auth=[],
        operation_id="report_sns_message",
    )
    def post(self, request: Request) -> HttpResponse:
        """Amazon SNS delivers an event of a topic that the setting `SLIPWAY_GPU_EVENT_TOPICS` names.

        The subscription is confirmed by itself. The topic must sign with SignatureVersion 2.
        """
        message = _document(request)
        if not isinstance(message, dict):
            raise ParseError("A message of Amazon SNS is an object.")
        actor = sns.sender(message)
        if message.get("Type") == sns.CONFIRMATION:
            sns.confirm(message)
            return HttpResponse(status=204)
        receipt = accept_events(actor=actor, document=message)
        return Response(EventReceiptSerializer(receipt).data)


def _document(request: Request) -> Any:
    """Whatever its content type says: providers send JSON as plain text."""
    return loads(request.body)
