from typing import Any

from rest_framework import serializers

from capacity.models import ScalingPolicy, SwitchTime
from capacity.replays import LONGEST_HOURS, MOST_POINTS
from common.api.examples import example

TIME = "2026-11-20T08:00:00Z"
LAW_HELP = (
    "`target`, `hold_seconds`, `decrease_band`, `drain_seconds`, `increase_from`; what is left out follows "
    "from the switch time."
)
POLICY = {
    "id": 3,
    "service": "chat",
    "number": 2,
    "law": {"target": 0.8},
    "is_active": True,
    "reason": "Fewer machines at night.",
    "created_by": "olga",
    "created_at": TIME,
}
REPLAY = {"violations": 0.0007, "harvest": 0.43, "moves": 52.0}


class LawField(serializers.DictField):
    """Numbers by name, as `capacity.planning.policies` knows them."""

    child = serializers.FloatField()


@example(POLICY)
class ScalingPolicySerializer(serializers.ModelSerializer[ScalingPolicy]):
    service = serializers.CharField(source="member.service")
    law = LawField(help_text=LAW_HELP)
    is_active = serializers.BooleanField(help_text="The latest of the service is in force.")

    class Meta:
        model = ScalingPolicy
        fields = tuple(POLICY)


@example({"service": "chat", "law": {"target": 0.8}, "reason": "Fewer machines at night."})
class NewScalingPolicySerializer(serializers.Serializer[Any]):
    service = serializers.CharField(max_length=63)
    law = LawField(help_text=LAW_HELP)
    reason = serializers.CharField(max_length=500, required=False, allow_blank=True)


@example(
    {
        "model": "chat",
        "kind": "NVIDIA H100 80GB HBM3",
        "drain_seconds": 4.1,
        "load_seconds": 31.0,
        "ready_seconds": 6.5,
        "start_seconds": 37.5,
    }
)
class SwitchTimeSerializer(serializers.ModelSerializer[SwitchTime]):
    model = serializers.CharField(source="model.name")
    ready_seconds = serializers.FloatField(
        allow_null=True, help_text="The rest of the start: placed, begun, checked, seen ready."
    )

    class Meta:
        model = SwitchTime
        fields = ("model", "kind", "drain_seconds", "load_seconds", "ready_seconds", "start_seconds")


@example({"service": "chat", "law": {"target": 0.8}, "hours": 24})
class PolicyReplayWish(serializers.Serializer[Any]):
    service = serializers.CharField(max_length=63)
    law = LawField(help_text=LAW_HELP)
    hours = serializers.IntegerField(
        min_value=1, max_value=LONGEST_HOURS, required=False, help_text="Of the recorded past; 24."
    )
    points = serializers.ListField(
        child=serializers.ListField(child=serializers.FloatField(), min_length=2, max_length=2),
        max_length=MOST_POINTS,
        required=False,
        help_text="`[seconds, load in workers]` instead of the recorded past.",
    )


@example(REPLAY)
class ReplaySerializer(serializers.Serializer[Any]):
    violations = serializers.FloatField(help_text="Share of the work that waited over a second.")
    harvest = serializers.FloatField(help_text="Share of all workers' time that was left.")
    moves = serializers.FloatField(help_text="Workers started and ended a day.")


@example({"present": REPLAY, "proposed": {**REPLAY, "harvest": 0.52}, "switch_seconds": 42.0})
class PolicyReplaySerializer(serializers.Serializer[Any]):
    present = ReplaySerializer(help_text="The policy in force.")
    proposed = ReplaySerializer()
    switch_seconds = serializers.FloatField()
