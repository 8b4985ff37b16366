"""Quotas of teams and their use, over REST."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers

from accounts import selectors as accounts
from accounts.api.permissions import InstallationRight
from accounts.api.shared import TEAM
from accounts.models import Team
from accounts.states import Right
from common.api.examples import example
from common.api.views import ListEndpoint, PutEndpoint, RetrieveEndpoint
from common.audit import MAX_REASON
from model_store import quotas, services
from model_store.api import examples
from model_store.api.store import OfStore
from model_store.quotas import TeamStorage


@example(examples.TEAM_STORAGE)
class TeamStorageSerializer(serializers.Serializer[TeamStorage]):
    team = serializers.CharField(source="team.name")
    limit_bytes = serializers.IntegerField(allow_null=True, help_text="null: no quota.")
    held_bytes = serializers.IntegerField(help_text="Used by its versions, deduplicated.")
    reserved_bytes = serializers.IntegerField(help_text="Reserved for active uploads.")
    reason = serializers.CharField(source="quota.reason", default="", help_text="Reason for the quota.")
    changed_by = serializers.CharField(source="quota.changed_by_name", default="")
    changed_at = serializers.DateTimeField(source="quota.changed_at", default=None, allow_null=True)


@example(examples.TEAM_STORAGE_PUT)
class TeamStoragePutSerializer(serializers.Serializer[Any]):
    limit_bytes = serializers.IntegerField(min_value=0, allow_null=True, help_text="null: no quota.")
    reason = serializers.CharField(max_length=MAX_REASON)


@extend_schema(parameters=[TEAM])
class TeamStorages(RetrieveEndpoint, PutEndpoint):
    """The bytes that the versions of a team hold, and may hold."""

    queryset = Team.objects.all()
    serializer_class = TeamStorageSerializer
    inputs = {"update": TeamStoragePutSerializer}
    pagination_class = None
    needs: ClassVar = {"update": InstallationRight(Right.FLEET_OPERATE)}

    def visible(self, rows: QuerySet[Team]) -> QuerySet[Team]:
        return accounts.teams_where(self.actor, Right.READ)

    def get_object(self) -> Team:
        found: Team = get_object_or_404(self.get_queryset(), name=self.kwargs["team"])
        return found

    def get_serializer(self, *args: Any, **kwargs: Any) -> serializers.BaseSerializer[Any]:
        if args and isinstance(args[0], Team):
            args = (quotas.storage_of(args[0]), *args[1:])
        return super().get_serializer(*args, **kwargs)

    def expected(self, instance: Any) -> None:
        """The team's revision says nothing of its quota, of which the last word counts."""

    def put_one(self, instance: Team | None, given: dict[str, Any], expected: int | None) -> Team:
        team = instance or self.get_object()
        services.set_quota(actor=self.actor, team=team, **given)
        return team


class Storages(OfStore, ListEndpoint):
    """The bytes that the versions of every team hold, and may hold."""

    queryset = Team.objects.all()
    serializer_class = TeamStorageSerializer
    sort = ("name",)
    search_fields = ("name",)

    def visible(self, rows: QuerySet[Team]) -> QuerySet[Team]:
        return rows

    def shown(self, page: Sequence[Team]) -> Any:
        return self.get_serializer(quotas.storages_of(page), many=True).data


ALL = Storages.as_view({"get": "list"})
ONE = TeamStorages.as_view({"get": "retrieve", "put": "update"})
