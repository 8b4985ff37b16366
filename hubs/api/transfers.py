"""What the endpoints of syncs and exports have in common: their states, wishes and events."""

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar
from zlib import crc32

from django.db.models import QuerySet
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.shared import events_of
from common.api.rows import EVENTS, ReasonSerializer, StuckField
from common.api.streams import ServerEvent
from common.api.views import ListEndpoint, RetrieveEndpoint
from hubs.models import HubTransfer
from hubs.selectors.transfers import transfers
from hubs.services.transfers import Transfers
from hubs.states import WISHES

T = TypeVar("T", bound=HubTransfer)
FIELDS = (
    "state",
    "reason",
    "stuck",
    "commit",
    "progress",
    "author_name",
    "created_at",
    "began_at",
    "ended_at",
)
"""That both have."""


class TransferSerializer(serializers.ModelSerializer[T]):
    model = serializers.CharField(source="model.name")
    reason = serializers.CharField(
        source="says", help_text="Reason for its state; while files move, what it waits for."
    )
    stuck = StuckField()


class TransferViews(ListEndpoint, RetrieveEndpoint):
    """Subclasses say of which kind, and how one is shown; see `shown_by`."""

    transfers: ClassVar[Transfers[Any]]
    event: ClassVar[str]
    serializer_class: type[TransferSerializer[Any]]
    inputs: ClassVar = dict.fromkeys(WISHES, ReasonSerializer)
    lookup_field = "id"
    lookup_value_converter = "int"
    sort = ("-created_at",)

    def visible(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return transfers(rows.model, self.actor)

    @action(detail=True, methods=["post"])
    def pause(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Pause; what has moved is kept."""
        return self._asked("pause")

    @action(detail=True, methods=["post"])
    def resume(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Resume what is paused or interrupted."""
        return self._asked("resume")

    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Cancel. What a sync downloaded is deleted; a commit already sent by an export may still arrive."""
        return self._asked("cancel")

    @action(detail=True, methods=["post"])
    def retry(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Retry what failed, was refused or cancelled; an export with another token if one is given."""
        return self._asked("retry")

    @extend_schema(responses=EVENTS)
    @action(detail=True)
    def events(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Follow its progress: a server-sent event at every change until it ends."""
        return events_of(self.get_object(), self, read=self.changed)

    def _asked(self, wish: str) -> Response:
        one = self.transfers.ask(wish, actor=self.actor, transfer=self.get_object(), **self.given())
        return self.answer(one, status=202)

    def changed(self, pk: int, after: str) -> list[ServerEvent]:
        """Return one event with the transfer as it is now, if it changed since `after`."""
        transfer = self.transfers.read(pk)
        files = transfer.files
        done = (files.attempt, files.bytes_done, files.files_done) if files else (0, 0, 0)
        told = (
            transfer.state,
            int(transfer.began_at.timestamp()),
            *done,
            bool(transfer.stuck_at),
            crc32(transfer.says.encode()),
        )
        place = ".".join(map(str, told))
        if place == after:
            return []
        shown = self.serializer_class(transfer).data
        return [ServerEvent(place, self.event, shown, last=not transfer.is_open)]


def shown_by(serializer: type[TransferSerializer[Any]]) -> Callable[[type[Any]], type[Any]]:
    """Describe to the schema that each action answers 202 with the transfer."""
    answers = extend_schema(responses={202: serializer})
    return extend_schema_view(**dict.fromkeys(WISHES, answers))
