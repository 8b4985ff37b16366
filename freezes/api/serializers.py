from datetime import datetime
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from common.api.examples import example
from common.audit import MAX_REASON
from freezes import selectors
from freezes.models import Freeze
from freezes.scopes import concerns_nothing
from freezes.states import FreezeEffect

NEW = {
    "name": "Weekends",
    "team": "speech",
    "effect": "deny",
    "service": "",
    "stage": "",
    "cluster": None,
    "starts_at": "2026-11-20T17:00:00Z",
    "zone": "Europe/Paris",
    "minutes": 3720,
    "recurrence": "FREQ=WEEKLY;BYDAY=FR",
    "reason": "Nobody is on call for releases.",
}
KEPT = {"created_by": "olga", "created_at": "2026-11-20T08:00:00Z"}
RULE = "Recurrence rule of RFC 5545 by the wall clock of the zone: `FREQ=WEEKLY;BYDAY=FR`; empty: once."
STAGE = "Only services in this stage of environments: `production`, or of one graph: `chat/production`."
ZONE = "IANA name: by its wall clock each time begins and ends."


@example(
    {
        "id": 7,
        **NEW,
        **KEPT,
        "frozen_until": "2026-11-23T07:00:00Z",
        "is_frozen": True,
        "concerns_nothing": False,
    }
)
class FreezeSerializer(serializers.ModelSerializer[Freeze]):
    team = serializers.CharField(
        source="team.name", default=None, allow_null=True, help_text="Owner; null: all teams."
    )
    cluster = serializers.CharField(
        source="cluster.name", default=None, allow_null=True, help_text="null: services of all clusters."
    )
    effect = serializers.ChoiceField(FreezeEffect.choices)
    minutes = serializers.IntegerField(
        allow_null=True, help_text="Length of each time; null: a stop, until it is ended."
    )
    is_frozen = serializers.SerializerMethodField(help_text="Whether it freezes now.")
    frozen_until = serializers.SerializerMethodField(
        help_text="null: it does not freeze now, or no end is known."
    )
    concerns_nothing = serializers.SerializerMethodField(
        help_text="It names a service, stage or cluster, and no service is meant by that yet."
    )

    class Meta:
        model = Freeze
        fields = ("id", *NEW, *KEPT, "is_frozen", "frozen_until", "concerns_nothing")

    @extend_schema_field(serializers.BooleanField())
    def get_is_frozen(self, row: Freeze) -> bool:
        return selectors.holding([row]) is not None

    def get_concerns_nothing(self, row: Freeze) -> bool:
        return concerns_nothing(row)

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_frozen_until(self, row: Freeze) -> datetime | None:
        held = selectors.holding([row])
        return held.until if held else None


class FreezeWishSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=100)
    effect = serializers.ChoiceField(FreezeEffect.choices, required=False)
    service = serializers.CharField(
        max_length=50, required=False, allow_blank=True, help_text="Only this service; empty: all."
    )
    stage = serializers.CharField(max_length=104, required=False, allow_blank=True, help_text=STAGE)
    cluster = serializers.CharField(
        max_length=63, required=False, allow_null=True, help_text="Only services of this cluster."
    )
    starts_at = serializers.DateTimeField(help_text="Begin of the first time.")
    zone = serializers.CharField(max_length=64, required=False, help_text=ZONE)
    minutes = serializers.IntegerField(min_value=1, max_value=527_040, help_text="Length of each time.")
    recurrence = serializers.CharField(max_length=300, required=False, allow_blank=True, help_text=RULE)
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


@example({"minutes": 3900, "reason": "Until Monday 11:00."})
class FreezeChangeSerializer(FreezeWishSerializer):
    """The changes of a window."""


@example(NEW)
class NewFreezeSerializer(FreezeWishSerializer):
    team = serializers.CharField(
        max_length=63, required=False, allow_null=True, help_text="Owner; default: it concerns all teams."
    )


@example({"team": "speech", "reason": "The tokenizer of three models is broken."})
class NewStopSerializer(serializers.Serializer[Any]):
    team = serializers.CharField(
        max_length=63, required=False, allow_null=True, help_text="Default: all teams."
    )
    reason = serializers.CharField(max_length=MAX_REASON, help_text="Shown on releases that are held.")
