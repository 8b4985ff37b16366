"""Environments over REST: what version is where, and its promotion along an edge."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.selectors import team_named
from accounts.states import Right
from common.api.examples import example
from common.api.views import CreateEndpoint, DestroyEndpoint, ListEndpoint, RetrieveEndpoint, UpdateEndpoint
from common.audit import MAX_REASON
from releases.api.serializers.releases import ReleaseSerializer
from releases.environment_models import EnvironmentGraph
from releases.filters import EnvironmentFilter
from releases.selectors.environments import StageView, environments_for, stages_of
from releases.services.environments import (
    change_environments,
    create_environments,
    delete_environments,
    promote,
)

STAGE = {"name": "production", "service": "chat", "after": ["staging"], "is_automatic": False}
NEW = {
    "team": "speech",
    "name": "chat",
    "description": "From the laptop to the customers.",
    "stages": [{"name": "staging", "service": "chat-staging", "after": [], "is_automatic": False}, STAGE],
}
SHOWN = {
    "replicas": 4,
    "version": "chat-small:v3",
    "since": "2026-11-20T08:00:00Z",
    "release": None,
    "next_version": "chat-small:v5",
    "ahead": ["v4", "v5"],
    "drift": ["slots"],
    "is_foreign": False,
    "is_frozen": True,
    "frozen_until": "2026-11-23T07:00:00Z",
    "refusal": "",
}


class NewStageSerializer(serializers.Serializer[Any]):
    name = serializers.SlugField(max_length=40)
    service = serializers.CharField(max_length=50)
    after = serializers.ListField(
        child=serializers.CharField(max_length=40),
        required=False,
        max_length=20,
        help_text="Stages from which versions come; default: the one before it in the list.",
    )
    is_automatic = serializers.BooleanField(
        default=False, help_text="What is promoted in a stage before it is released here at once."
    )


class StageSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(source="stage.name")
    service = serializers.CharField(source="service.name")
    after = serializers.ListField(source="stage.after", child=serializers.CharField())
    is_automatic = serializers.BooleanField(source="stage.is_automatic")
    replicas = serializers.IntegerField(
        source="service.replicas", help_text="Workers; no drift where they differ from those before it."
    )
    version = serializers.SerializerMethodField(help_text="What serves; null: nothing yet.")
    since = serializers.DateTimeField(source="service.stable_since", allow_null=True)
    release = serializers.IntegerField(
        source="release.pk", default=None, allow_null=True, help_text="The active one."
    )
    next_version = serializers.SerializerMethodField(help_text="What a promotion brings; null: nothing.")
    ahead = serializers.SerializerMethodField(help_text="Newer versions, up to that of the stage before it.")
    drift = serializers.ListField(
        child=serializers.CharField(), help_text="Settings that differ from the stage before it."
    )
    is_foreign = serializers.BooleanField(help_text="Its version never served in a stage before it.")
    is_frozen = serializers.SerializerMethodField(help_text="Whether a freeze keeps versions out now.")
    frozen_until = serializers.DateTimeField(
        source="frozen.until",
        default=None,
        allow_null=True,
        help_text="null: it is not, or no end is known.",
    )
    refusal = serializers.CharField(
        help_text="Why what is ahead was not promoted automatically; empty: nothing is, or it was."
    )

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_version(self, view: StageView) -> str | None:
        version = view.service.stable_version
        return str(version) if version else None

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_next_version(self, view: StageView) -> str | None:
        return str(view.next_version) if view.next_version else None

    def get_is_frozen(self, view: StageView) -> bool:
        return view.frozen is not None

    def get_ahead(self, view: StageView) -> list[str]:
        return [one.name for one in view.ahead]


@example(
    {
        "id": 2,
        **NEW,
        "stages": [{**STAGE, **SHOWN}],
        "created_by": "ada",
        "created_at": "2026-11-20T08:00:00Z",
    }
)
class EnvironmentSerializer(serializers.ModelSerializer[EnvironmentGraph]):
    team = serializers.CharField(source="team.name")
    stages = serializers.SerializerMethodField()

    class Meta:
        model = EnvironmentGraph
        fields = ("id", "team", "name", "description", "stages", "created_by", "created_at")

    @extend_schema_field(StageSerializer(many=True))
    def get_stages(self, graph: EnvironmentGraph) -> Any:
        return StageSerializer(stages_of(graph), many=True).data


@example(NEW)
class NewEnvironmentSerializer(serializers.Serializer[Any]):
    team = serializers.CharField(max_length=150)
    name = serializers.SlugField(max_length=63)
    description = serializers.CharField(max_length=500, required=False, allow_blank=True)
    stages = NewStageSerializer(many=True)


@example({"stages": NEW["stages"], "reason": "A stage for load tests."})
class ChangedEnvironmentSerializer(serializers.Serializer[Any]):
    description = serializers.CharField(max_length=500, required=False, allow_blank=True)
    stages = NewStageSerializer(many=True, required=False, help_text="All of them, in their order.")
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


@example({"stage": "production", "reason": "Read a hundred answers."})
class PromotionSerializer(serializers.Serializer[Any]):
    stage = serializers.CharField(max_length=40)
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


class Environments(ListEndpoint, CreateEndpoint, RetrieveEndpoint, UpdateEndpoint, DestroyEndpoint):
    """Environments: services of one model in the order in which versions pass them."""

    queryset = EnvironmentGraph.objects.select_related("team")
    serializer_class = EnvironmentSerializer
    filterset_class = EnvironmentFilter
    lookup_value_converter = "int"
    sort = ("name",)
    inputs: ClassVar = {
        "create": NewEnvironmentSerializer,
        "partial_update": ChangedEnvironmentSerializer,
        "promote": PromotionSerializer,
    }
    needs: ClassVar = {
        **dict.fromkeys(("create", "partial_update", "destroy"), Right.SERVICES_WRITE),
        "promote": Right.RELEASES_START,
    }

    def visible(self, rows: QuerySet[EnvironmentGraph]) -> QuerySet[EnvironmentGraph]:
        return environments_for(self.actor)

    def create_one(self, given: dict[str, Any]) -> EnvironmentGraph:
        return create_environments(
            actor=self.actor, **{**given, "team": team_named(self.actor, given["team"])}
        )

    def change_one(
        self, instance: EnvironmentGraph, given: dict[str, Any], expected: int | None
    ) -> EnvironmentGraph:
        return change_environments(instance, actor=self.actor, **given)

    def delete_one(self, instance: EnvironmentGraph, expected: int | None, reason: str) -> None:
        delete_environments(instance, actor=self.actor, reason=reason)

    @extend_schema(responses={202: ReleaseSerializer})
    @action(detail=True, methods=["post"])
    def promote(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Release to a stage what the stage before it serves, by the plan of its service."""
        release = promote(self.get_object(), actor=self.actor, **self.given())
        return Response(ReleaseSerializer(release, context=self.get_serializer_context()).data, status=202)
