"""What is stuck or has failed for minutes, of every kind, and what a person does about it."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import stuck
from accounts.api import examples
from accounts.services import rights
from accounts.services import stuck as verbs
from accounts.states import Right
from common.api.examples import example
from common.api.views import Endpoint
from common.audit import MAX_REASON

WHERE = [
    OpenApiParameter("kind", OpenApiTypes.STR, OpenApiParameter.PATH, description="As the list tells it."),
    OpenApiParameter("id", OpenApiTypes.INT, OpenApiParameter.PATH, description="As the list tells it."),
]
WHY = "Why; kept in the record."


class DoubtSerializer(serializers.Serializer[Any]):
    op_key = serializers.CharField(help_text="Names the effect in an answer.")
    step = serializers.CharField()
    wanted = serializers.DictField(help_text="What the step was about to do.")
    intended_at = serializers.DateTimeField()


@example(examples.STUCK)
class StuckSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField(help_text="`app.model`, such as `releases.release`.")
    id = serializers.IntegerField()
    title = serializers.CharField()
    url = serializers.CharField(help_text="Path of its page.")
    state = serializers.ChoiceField(
        choices=("stuck", "failing"),
        help_text="`stuck` waits for a person; `failing` is tried further and has failed for over 2 minutes.",
    )
    since = serializers.DateTimeField(help_text="In this state.")
    failing_since = serializers.DateTimeField(help_text="The first failure in a row.")
    why = serializers.CharField(help_text="The last error.")
    attempts = serializers.IntegerField()
    doubts = DoubtSerializer(
        many=True, help_text="Effects of which nobody knows whether they took place; answer each."
    )
    may_retry = serializers.BooleanField(help_text="It is stuck, and you may retry it or answer.")


@example(examples.STUCK_LIST)
class StuckListSerializer(serializers.Serializer[Any]):
    results = StuckSerializer(many=True, help_text="Those in their state for the longest first.")


@example(examples.STUCK_DONE)
class StuckDoneSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField()
    id = serializers.IntegerField()
    stuck = serializers.BooleanField(help_text="Whether it still waits for a person: doubts are left.")


@example({"reason": "The disk has room again."})
class RetrySerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=MAX_REASON, help_text=WHY)


@example(examples.STUCK_ANSWER)
class AnswerSerializer(serializers.Serializer[Any]):
    op_key = serializers.CharField(max_length=200, help_text="One of the row's `doubts`.")
    happened = serializers.BooleanField(help_text="Whether the effect took place, as you have seen.")
    reason = serializers.CharField(max_length=MAX_REASON, help_text=WHY)


class StuckRows(Endpoint):
    """Rows of every kind that wait for a person, or have failed for more than two minutes."""

    serializer_class = StuckListSerializer
    inputs = {"retry": RetrySerializer, "reply": AnswerSerializer}
    outputs = {"retry": StuckDoneSerializer, "reply": StuckDoneSerializer}
    pagination_class = None

    def show(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List the stuck rows that you may see in one response: at most 500 of each kind."""
        rights.require(self.actor, Right.READ)
        return Response(self.get_serializer({"results": stuck.everything_stuck(self.actor)}).data)

    @extend_schema(parameters=WHERE)
    def retry(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Begin the step of a stuck row anew; 409 when it is not stuck."""
        verbs.owned_row(self.actor, kwargs["kind"], kwargs["id"])
        return self._done(verbs.retry(actor=self.actor, kind=kwargs["kind"], pk=kwargs["id"], **self.given()))

    @extend_schema(parameters=WHERE)
    def reply(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Say whether an effect in doubt took place; after the last answer the row goes on."""
        verbs.owned_row(self.actor, kwargs["kind"], kwargs["id"])
        return self._done(
            verbs.answer(actor=self.actor, kind=kwargs["kind"], pk=kwargs["id"], **self.given())
        )

    def _done(self, row: Any) -> Response:
        shown = {"kind": row._meta.label_lower, "id": row.pk, "stuck": row.stuck_at is not None}
        return Response(self.get_serializer(shown).data)
