"""Sources on hubs."""

from typing import Any, ClassVar

import django_filters
from django.db.models import QuerySet
from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.states import Right
from common.api.examples import example
from common.api.rows import CardsEndpoint, StuckField
from common.api.views import CreateEndpoint, DestroyEndpoint, ListEndpoint, RetrieveEndpoint, UpdateEndpoint
from common.errors import Invalid
from hubs.api import examples
from hubs.api.syncs import CauseField, HubSyncSerializer
from hubs.models import HubSource, HubSync
from hubs.selectors import syncs
from hubs.selectors.syncs import HubSourceCard
from hubs.services import notices
from hubs.services import syncs as sync_services
from hubs.services.checks import MAX_TOKEN
from hubs.states import SYNC_STATES, HubKind
from models_registry.errors import UnknownModel
from models_registry.selectors import catalogue
from models_registry.services.checks import MAX_PATTERNS

PATTERNS = "Shell patterns over whole paths, such as `*.safetensors`."


class LastSyncSerializer(serializers.ModelSerializer[HubSync]):
    state = serializers.ChoiceField(choices=SYNC_STATES)
    cause = CauseField()
    reason = serializers.CharField(source="says", read_only=True)
    version = serializers.CharField(source="version.name", default=None, allow_null=True)

    class Meta:
        model = HubSync
        fields = ("id", "state", "cause", "reason", "commit", "version", "began_at", "ended_at")


@example(examples.HUB_SOURCE)
class HubSourceSerializer(serializers.Serializer[HubSourceCard]):
    id = serializers.IntegerField(source="source.pk")
    model = serializers.CharField(source="source.model.name")
    endpoint = serializers.CharField(source="source.endpoint")
    kind = serializers.ChoiceField(
        choices=HubKind.choices, source="source.kind", help_text="API of the endpoint."
    )
    repo_id = serializers.CharField(source="source.repo_id")
    revision = serializers.CharField(source="source.ref", help_text="The branch, tag or commit.")
    has_token = serializers.BooleanField(
        source="source.has_token", help_text="Whether a token is stored; it is never shown."
    )
    allow_patterns = serializers.ListField(child=serializers.CharField(), source="source.allow_patterns")
    ignore_patterns = serializers.ListField(child=serializers.CharField(), source="source.ignore_patterns")
    every = serializers.IntegerField(
        source="source.every_seconds",
        allow_null=True,
        help_text="Check interval in seconds; null: only on request.",
    )
    due_at = serializers.DateTimeField(source="source.due_at", allow_null=True, help_text="Next check.")
    takes_notices = serializers.BooleanField(
        source="source.takes_notices", help_text="Whether the hub's webhook is set up; see `notice-secret/`."
    )
    release_to = serializers.CharField(
        source="source.release_to", help_text="Service to which every new version is released; empty: none."
    )
    release_plan = serializers.CharField(source="source.release_plan", help_text="Empty: the service's.")
    stuck = StuckField(source="source", help_text="Reason why its schedule is stuck; empty: it is not.")
    last_sync = LastSyncSerializer(allow_null=True)
    created_at = serializers.DateTimeField(source="source.created_at")
    created_by = serializers.CharField(source="source.created_by_name")


def patterns_field() -> serializers.ListField:
    return serializers.ListField(
        child=serializers.CharField(max_length=200),
        max_length=MAX_PATTERNS,
        required=False,
        help_text=PATTERNS,
    )


@example(examples.HUB_SOURCE_CHANGE)
class HubSourceChangeSerializer(serializers.Serializer[Any]):
    revision = serializers.CharField(
        max_length=200, required=False, help_text="Branch, tag or commit to follow."
    )
    token = serializers.CharField(
        max_length=MAX_TOKEN,
        required=False,
        allow_blank=True,
        write_only=True,
        help_text="Token for private and gated repositories. Stored encrypted; empty: none.",
    )
    allow_patterns = patterns_field()
    ignore_patterns = patterns_field()
    every = serializers.IntegerField(
        required=False, allow_null=True, help_text="Check interval in seconds; null: only on request."
    )
    release_to = serializers.CharField(
        max_length=50,
        required=False,
        allow_blank=True,
        help_text="Service to which every new version is released, in your name; empty: none.",
    )
    release_plan = serializers.CharField(
        max_length=60,
        required=False,
        allow_blank=True,
        help_text="Plan of those releases; default: the service's.",
    )


@example(examples.NEW_HUB_SOURCE)
class NewHubSourceSerializer(HubSourceChangeSerializer):
    model = serializers.CharField(max_length=95, help_text="Model of the imported versions.")
    repo_id = serializers.CharField(max_length=200, help_text="`org/name`.")
    endpoint = serializers.CharField(
        max_length=200,
        required=False,
        allow_blank=True,
        help_text="One of the configured hubs; default: the server's default hub.",
    )
    kind = serializers.ChoiceField(
        choices=HubKind.choices,
        required=False,
        help_text="API of the endpoint, default `huggingface`. Without a revision its default branch "
        "(`main`, on ModelScope `master`) is followed.",
    )


@example(examples.NOTICE_SECRET)
class NoticeSecretSerializer(serializers.Serializer[Any]):
    address = serializers.CharField(help_text="URL for the hub's webhook.")
    secret = serializers.CharField(
        help_text="Secret of the hub's webhook (`X-Webhook-Secret`); shown only once."
    )


class HubSourceFilter(django_filters.FilterSet):  # type: ignore[misc]
    model = django_filters.CharFilter("model__name")


class HubSources(
    CardsEndpoint, ListEndpoint, CreateEndpoint, RetrieveEndpoint, UpdateEndpoint, DestroyEndpoint
):
    """Repositories on hubs that versions of a model come from."""

    queryset = HubSource.objects.all()
    cards: ClassVar = {HubSource: syncs.hub_source_card}
    serializer_class = HubSourceSerializer
    inputs = {"create": NewHubSourceSerializer, "partial_update": HubSourceChangeSerializer}
    outputs: ClassVar = {"sync": HubSyncSerializer}
    secret_answers = frozenset({"notice_secret"})
    filterset_class = HubSourceFilter
    search_fields = ("repo_id", "model__name")
    lookup_field = "id"
    lookup_value_converter = "int"
    sort = ("-created_at", "repo_id")
    needs: ClassVar = dict.fromkeys(
        ("create", "partial_update", "destroy", "sync", "notice_secret"), Right.MODELS_WRITE
    )

    def visible(self, rows: QuerySet[HubSource]) -> QuerySet[HubSource]:
        return syncs.hub_sources(self.actor)

    def shown(self, page: Any) -> Any:
        return self.get_serializer(syncs.hub_source_cards(page), many=True).data

    def create_one(self, given: dict[str, Any]) -> HubSource:
        try:
            model = catalogue.model_named(self.actor, given.pop("model"))
        except UnknownModel as error:
            raise Invalid(fields={"model": [str(error)]}) from None
        return sync_services.create_hub_source(actor=self.actor, model=model, **given)

    def change_one(self, instance: HubSource, given: dict[str, Any], expected: int | None) -> HubSource:
        return sync_services.change_hub_source(actor=self.actor, source=instance, expected=expected, **given)

    def delete_one(self, instance: HubSource, expected: int | None, reason: str) -> None:
        sync_services.delete_hub_source(actor=self.actor, source=instance, expected=expected, reason=reason)

    @extend_schema(responses={202: HubSyncSerializer})
    @action(detail=True, methods=["post"])
    def sync(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Sync now: a new commit becomes a version of the model."""
        return self.answer(sync_services.start_sync(actor=self.actor, source=self.get_object()), status=202)

    @extend_schema(responses=NoticeSecretSerializer)
    @action(detail=True, methods=["post"], url_path="notice-secret")
    def notice_secret(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Create the secret of the hub's webhook that triggers syncs; the previous one stops working."""
        source = self.get_object()
        secret = notices.new_notice_secret(actor=self.actor, source=source)
        address = request.build_absolute_uri(reverse("hub-notice", args=[source.pk]))
        return Response(NoticeSecretSerializer({"address": address, "secret": secret}).data)
