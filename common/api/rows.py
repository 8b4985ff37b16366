"""What endpoints of rows that last have in common: cards, progress, why one is stuck, events."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers
from rest_framework.serializers import BaseSerializer

from common.api.examples import example
from common.api.views import Endpoint
from common.audit import MAX_REASON

EVENTS = {(200, "text/event-stream"): OpenApiResponse(OpenApiTypes.STR, description="Server-sent events.")}


class StuckField(serializers.CharField):
    """Fields of a row that the kernel keeps; `source` names the row."""

    def __init__(
        self, *, source: str = "*", help_text: str = "Reason why it is stuck; empty: it is not."
    ) -> None:
        super().__init__(source=source, help_text=help_text, read_only=True)

    def to_representation(self, row: Any) -> str:
        return row.last_error if row.stuck_at else ""


class ProgressSerializer(serializers.Serializer[Any]):
    bytes_done = serializers.IntegerField()
    bytes_total = serializers.IntegerField()
    files_done = serializers.IntegerField()
    files_total = serializers.IntegerField()
    bytes_per_second = serializers.IntegerField(help_text="Current transfer rate; 0 while stalled.")
    seconds_left = serializers.FloatField(allow_null=True)


@example({"reason": "The disk was full; it is not any more."})
class ReasonSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


@example({"reason": "The evidence is fine, and so are the answers that I read."})
class RequiredReasonSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=MAX_REASON, help_text="Reason; recorded in the audit log.")


class CardsEndpoint(Endpoint):
    """Rows are shown as cards: with what belongs to them, read for a whole page at once."""

    cards: ClassVar[Mapping[type[Any], Callable[[Any], Any]]]
    """From kinds of rows to what serializers show of one; of other rows they show the row."""

    def get_serializer(self, *args: Any, **kwargs: Any) -> BaseSerializer[Any]:
        if args and not kwargs.get("many") and (card := self.cards.get(type(args[0]))):
            args = (card(args[0]), *args[1:])
        return super().get_serializer(*args, **kwargs)
