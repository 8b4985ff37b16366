"""Queues of services over REST."""

from typing import Any

from rest_framework import serializers

from capacity.models import ServiceQueue
from capacity.models.queues import LONGEST_ITEM_SECONDS
from capacity.states import QueueKind
from common.api.examples import example

RULES = {
    "kind": "redis_stream",
    "url": "redis://queues.example:6379/0",
    "subject": "pictures",
    "consumer_group": "workers",
    "item_seconds": None,
    "deadline": None,
}
QUEUE_LOOK = {
    "at": 1795939200.0,
    "waiting": 1200.0,
    "in_hand": 8.0,
    "rate": 2.4,
    "item_seconds": 1.9,
    "workers": 6,
    "late_seconds": 0.0,
    "why": "queue_drains",
    "problem": "",
}


@example({**RULES, "secret": "the password"})
class ServiceQueueWish(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(QueueKind.choices, default=QueueKind.JOBS)
    url = serializers.CharField(
        max_length=500,
        required=False,
        allow_blank=True,
        help_text="Of a queue outside of Slipway; takes the right to operate the fleet.",
    )
    subject = serializers.CharField(
        max_length=1_000,
        required=False,
        allow_blank=True,
        help_text="Key of a list or stream, query of a Prometheus, region of SQS, topic of Kafka.",
    )
    consumer_group = serializers.CharField(max_length=200, required=False, allow_blank=True)
    secret = serializers.CharField(
        max_length=4_096,
        required=False,
        allow_blank=True,
        write_only=True,
        help_text="Password or bearer token; of SQS `KEY_ID:KEY`. Left out: as it is.",
    )
    item_seconds = serializers.FloatField(
        min_value=0.001,
        max_value=LONGEST_ITEM_SECONDS,
        required=False,
        allow_null=True,
        help_text="For which an item keeps a worker; null: measured, where the queue counts what arrives.",
    )
    deadline = serializers.DateTimeField(
        required=False, allow_null=True, help_text="By which all that waits is to be done."
    )


@example(QUEUE_LOOK)
class QueueLookSerializer(serializers.Serializer[Any]):
    """A queue at the last look."""

    at = serializers.FloatField(help_text="Seconds since 1970.")
    waiting = serializers.FloatField(help_text="Items.")
    in_hand = serializers.FloatField(help_text="Items that workers have.")
    rate = serializers.FloatField(help_text="Work that arrives, in workers.")
    item_seconds = serializers.FloatField()
    workers = serializers.IntegerField(help_text="That the queue should have.")
    late_seconds = serializers.FloatField(help_text="By which the deadline will be missed; 0: it will not.")
    why = serializers.CharField()
    problem = serializers.CharField(help_text="Why the queue did not tell at the last try.")


@example(
    {
        "service": "pictures",
        "pool": 7,
        **RULES,
        "has_secret": True,
        "late_since": None,
        "look": QUEUE_LOOK,
    }
)
class ServiceQueueSerializer(serializers.ModelSerializer[ServiceQueue]):
    service = serializers.CharField(source="member.service")
    pool = serializers.IntegerField(source="member.pool_id")
    has_secret = serializers.BooleanField()
    look = QueueLookSerializer(allow_null=True, help_text="null before the first look.")

    class Meta:
        model = ServiceQueue
        fields = ("service", "pool", *RULES, "has_secret", "late_since", "look")
