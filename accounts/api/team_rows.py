"""A plain kind of row of a team over REST, said once."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeVar

from rest_framework import serializers

from accounts.models import Team
from accounts.selectors import team_named
from accounts.team_rows import TeamRow
from common.api.examples import example
from common.api.views import CreateEndpoint, ListEndpoint, RetrieveEndpoint

Row = TypeVar("Row", bound=TeamRow)
NEW = {"name": "nightly", "team": "speech", "description": "Runs every night."}
KEPT = {"created_at": "2026-11-20T08:00:00Z", "created_by": "olga"}


@example({"id": 7, **NEW, "state": "proposed", **KEPT})
class TeamRowSerializer(serializers.ModelSerializer[Row]):
    """A kind names its `model`, and gives an example of its own where it has other states."""

    team = serializers.CharField(source="team.name")

    class Meta:
        fields: tuple[str, ...] = ("id", *NEW, "state", *KEPT)


@example(NEW)
class NewTeamRowSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=63)
    team = serializers.CharField(max_length=63, help_text="Owner.")
    description = serializers.CharField(max_length=500, required=False, allow_blank=True)


class TeamRows(ListEndpoint, CreateEndpoint, RetrieveEndpoint, ABC):
    """List, make and read; `visible` goes by the teams of who asks."""

    inputs: ClassVar = {"create": NewTeamRowSerializer}
    lookup_value_converter = "int"
    sort = ("name", "-created_at")

    def visible(self, rows: Any) -> Any:
        return super().visible(rows).select_related("team")

    def create_one(self, given: dict[str, Any]) -> Any:
        return self.create_row(team=team_named(self.actor, given.pop("team")), **given)

    @abstractmethod
    def create_row(self, *, team: Team, name: str, description: str = "") -> Any:
        """Call the service; returns the created row."""
