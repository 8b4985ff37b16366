"""Webhooks: endpoints that hear of events, and what was sent to them."""

from datetime import datetime
from typing import Any

import orjson
from django.conf import settings
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils.functional import cached_property
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import selectors
from accounts.api import examples
from accounts.filters import DeliveryFilter
from accounts.models import WebhookDelivery, WebhookEndpoint
from accounts.services import rights, webhooks
from accounts.services.webhooks import IssuedWebhook
from accounts.states import DeliveryState, LeastSeverity, Right, WebhookFormat
from common.api.examples import example
from common.api.views import (
    CreateEndpoint,
    DestroyEndpoint,
    Endpoint,
    ListEndpoint,
    RetrieveEndpoint,
    UpdateEndpoint,
)
from common.audit import MAX_REASON

TEAMS = "Names of the teams whose events alone it receives; empty: all. Not for a team's webhook."
SEVERITY = "Least severity of alerts and GPU findings; other events have none."
WANTED = "Event types, see docs/WEBHOOKS.md; empty: all, future ones included."


@example({"from": "22:00", "until": "07:00", "zone": "Europe/Paris"})
class QuietHoursSerializer(serializers.Serializer[Any]):
    until = serializers.CharField(max_length=8)
    zone = serializers.CharField(max_length=64, help_text="IANA name, such as Europe/Paris.")

    def get_fields(self) -> dict[str, Any]:
        # `from` is a word of Python's.
        begin = serializers.CharField(max_length=8, help_text="Such as 22:00.")
        return {"from": begin, **super().get_fields()}


@example(examples.WEBHOOK)
class WebhookSerializer(serializers.ModelSerializer[WebhookEndpoint]):
    team = serializers.CharField(
        source="team.name", default=None, allow_null=True, help_text="null: a person's or the installation's."
    )
    person = serializers.CharField(
        source="person.username",
        default=None,
        allow_null=True,
        help_text="Whose own it is: it receives the events of their teams.",
    )
    url = serializers.CharField(source="destination")
    teams = serializers.ListField(child=serializers.CharField(), help_text=TEAMS)
    severity = serializers.ChoiceField(LeastSeverity.choices, help_text=SEVERITY)
    events = serializers.ListField(child=serializers.CharField(), help_text=WANTED)
    disabled_why = serializers.CharField(help_text="Empty while it is enabled.")
    failing_since = serializers.DateTimeField(allow_null=True, help_text="Failing since; null: not failing.")
    delivered_at = serializers.DateTimeField(allow_null=True, help_text="Last successful delivery.")
    format = serializers.ChoiceField(WebhookFormat.choices)
    language = serializers.CharField(help_text="Of the words; not used by the standard format.")
    quiet_hours = QuietHoursSerializer(allow_null=True, help_text="null: messages never wait.")
    digest_minutes = serializers.IntegerField(help_text="Messages of so many minutes go as one; 0: each.")
    former_secret_until = serializers.DateTimeField(
        allow_null=True, help_text="Until when the previous secret is valid, too."
    )

    class Meta:
        model = WebhookEndpoint
        fields: tuple[str, ...] = (
            "id",
            "team",
            "person",
            "url",
            "description",
            "events",
            "teams",
            "severity",
            "format",
            "language",
            "quiet_hours",
            "digest_minutes",
            "enabled",
            "disabled_why",
            "failing_since",
            "delivered_at",
            "former_secret_until",
            "created_by",
            "created_at",
        )


@example(examples.ISSUED_WEBHOOK)
class IssuedWebhookSerializer(WebhookSerializer):
    secret = serializers.CharField(help_text="Signing secret; shown only once.")

    class Meta(WebhookSerializer.Meta):
        fields = (*WebhookSerializer.Meta.fields, "secret")


class _WebhookFields(serializers.Serializer[Any]):
    description = serializers.CharField(max_length=300, required=False, allow_blank=True)
    events = serializers.ListField(
        child=serializers.CharField(max_length=60), required=False, help_text=WANTED
    )
    teams = serializers.ListField(
        child=serializers.CharField(max_length=63), required=False, max_length=100, help_text=TEAMS
    )
    severity = serializers.ChoiceField(LeastSeverity.choices, required=False, help_text=SEVERITY)
    format = serializers.ChoiceField(
        WebhookFormat.choices, required=False, help_text="Whose messages the receiver takes."
    )
    language = serializers.ChoiceField(settings.LANGUAGES, required=False)
    quiet_hours = QuietHoursSerializer(required=False, allow_null=True)
    digest_minutes = serializers.IntegerField(required=False, min_value=0, max_value=1_440)


@example(examples.NEW_WEBHOOK)
class NewWebhookSerializer(_WebhookFields):
    url = serializers.CharField(
        max_length=2000,
        required=False,
        help_text="https, on the public internet; of e-mail `mailto:ops@example.org`. "
        "Left out of a person's own, e-mail goes to their account's address.",
    )
    person = serializers.CharField(
        max_length=150, required=False, help_text="Your username: a webhook of your own."
    )
    team = serializers.CharField(
        max_length=63,
        required=False,
        help_text="Events of this team; default: of all teams, for administrators of the installation.",
    )


@example(examples.WEBHOOK_CHANGE)
class WebhookChangeSerializer(_WebhookFields):
    url = serializers.CharField(max_length=2000, required=False, allow_blank=True)
    enabled = serializers.BooleanField(required=False)
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


class TrySerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    status = serializers.IntegerField(allow_null=True, help_text="null: no response.")
    milliseconds = serializers.IntegerField()
    answer = serializers.CharField(help_text="First KiB of the response.")
    error = serializers.CharField(help_text="Reason of the failure.")


@example(examples.DELIVERY)
class DeliverySerializer(serializers.ModelSerializer[WebhookDelivery]):
    message_id = serializers.CharField(source="event.key", help_text="The `webhook-id` of the delivery.")
    type = serializers.CharField(source="event.type")
    state = serializers.ChoiceField(choices=DeliveryState.choices)
    due_at = serializers.SerializerMethodField(help_text="Next attempt; null: none.")
    tries = serializers.IntegerField(help_text="Attempts since it was created or replayed.")
    history = TrySerializer(many=True, help_text="Attempts, oldest first; the last 30.")

    class Meta:
        model = WebhookDelivery
        fields: tuple[str, ...] = (
            "id",
            "message_id",
            "type",
            "state",
            "tries",
            "due_at",
            "created_at",
            "history",
        )

    def get_due_at(self, delivery: WebhookDelivery) -> datetime | None:
        return delivery.next_at


@example(examples.DELIVERY_DETAIL)
class DeliveryDetailSerializer(DeliverySerializer):
    body = serializers.SerializerMethodField(help_text="Body of the delivery.")

    class Meta(DeliverySerializer.Meta):
        fields = (*DeliverySerializer.Meta.fields, "body")

    def get_body(self, delivery: WebhookDelivery) -> dict[str, Any]:
        return orjson.loads(delivery.event.body)  # type: ignore[no-any-return]


class Webhooks(ListEndpoint, CreateEndpoint, RetrieveEndpoint, UpdateEndpoint, DestroyEndpoint):
    """Endpoints that are told of events: of a team, of your teams, or of the whole installation."""

    queryset = WebhookEndpoint.objects.all()
    serializer_class = WebhookSerializer
    inputs = {"create": NewWebhookSerializer, "partial_update": WebhookChangeSerializer}
    outputs = {
        "create": IssuedWebhookSerializer,
        "rotate_secret": IssuedWebhookSerializer,
        "test": DeliverySerializer,
    }
    secret_answers = frozenset({"create", "rotate_secret"})
    lookup_field = "pk"
    lookup_url_kwarg = "id"
    lookup_value_converter = "int"
    sort = ("-created_at", "url")
    search_fields = ("url", "description")
    filterset_fields = ("enabled",)

    def visible(self, rows: QuerySet[WebhookEndpoint]) -> QuerySet[WebhookEndpoint]:
        return selectors.webhooks(self.actor)

    def check_permissions(self, request: Request) -> None:
        super().check_permissions(request)
        if "id" in self.kwargs:
            _ = self.endpoint

    @cached_property
    def endpoint(self) -> WebhookEndpoint:
        return _endpoint(self, self.kwargs["id"])

    def get_object(self) -> WebhookEndpoint:
        return self.endpoint

    def create_one(self, given: dict[str, Any]) -> WebhookEndpoint:
        if "team" in given:
            given["team"] = selectors.team_named(self.actor, given["team"])
        if "person" in given:
            given["person"] = selectors.person_named(self.actor, given["person"])
        return _with_secret(webhooks.create_webhook(actor=self.actor, **given))

    def change_one(
        self, instance: WebhookEndpoint, given: dict[str, Any], expected: int | None
    ) -> WebhookEndpoint:
        return webhooks.change_webhook(actor=self.actor, endpoint=instance, expected=expected, **given)

    def delete_one(self, instance: WebhookEndpoint, expected: int | None, reason: str) -> None:
        webhooks.delete_webhook(actor=self.actor, endpoint=instance, expected=expected, reason=reason)

    @extend_schema(responses=IssuedWebhookSerializer)
    @action(detail=True, methods=["post"], url_path="rotate-secret")
    def rotate_secret(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Rotate the signing secret. The previous one stays valid for a day."""
        issued = webhooks.rotate_webhook_secret(actor=self.actor, endpoint=self.get_object())
        return self.answer(_with_secret(issued))

    @extend_schema(responses={202: DeliverySerializer})
    @action(detail=True, methods=["post"])
    def test(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Send a `webhook.test` event; see the deliveries for the result."""
        delivery = webhooks.send_test(actor=self.actor, endpoint=self.get_object())
        return self.answer(delivery, status=202)


@extend_schema(
    parameters=[
        OpenApiParameter("webhook", OpenApiTypes.INT, OpenApiParameter.PATH, description="ID of the webhook.")
    ]
)
class Deliveries(ListEndpoint, RetrieveEndpoint):
    """The deliveries to an endpoint in the last 30 days, with their outcome."""

    queryset = WebhookDelivery.objects.all()
    serializer_class = DeliverySerializer
    outputs = {"retrieve": DeliveryDetailSerializer}
    lookup_field = "pk"
    lookup_url_kwarg = "id"
    lookup_value_converter = "int"
    sort = ("-created_at",)
    filterset_class = DeliveryFilter

    def check_permissions(self, request: Request) -> None:
        super().check_permissions(request)
        _ = self.endpoint

    @cached_property
    def endpoint(self) -> WebhookEndpoint:
        return _endpoint(self, self.kwargs["webhook"])

    def visible(self, rows: QuerySet[WebhookDelivery]) -> QuerySet[WebhookDelivery]:
        return selectors.deliveries(self.endpoint)

    @extend_schema(responses={202: DeliverySerializer})
    @action(detail=True, methods=["post"])
    def replay(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Resend: the same body under the same `webhook-id`, signed again."""
        delivery = webhooks.replay_delivery(actor=self.actor, delivery=self.get_object())
        return self.answer(delivery, status=202)


def _endpoint(view: Endpoint, pk: int) -> WebhookEndpoint:
    """Return the actor's own endpoint, or one of a team whose webhooks it may see."""
    endpoint = get_object_or_404(selectors.webhooks(view.actor, Right.READ), pk=pk)
    if endpoint.person_id is None or endpoint.person_id != view.actor.user_id:
        rights.require(view.actor, Right.WEBHOOKS_WRITE, endpoint.team)
    return endpoint


def _with_secret(issued: IssuedWebhook) -> WebhookEndpoint:
    issued.endpoint.secret = issued.secret  # type: ignore[attr-defined]
    return issued.endpoint
