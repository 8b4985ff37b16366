"""What incidents and the healing policy look like over REST."""

from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from common.api.examples import example
from common.audit import MAX_REASON
from gpu_health.api import healing_examples as examples
from gpu_health.healing.limits import HealingLimits
from gpu_health.models import HealingPolicy, HealingPool, Incident, IncidentEntry
from gpu_health.states import FindingSeverity, HealingMode, IncidentState

LIMITS = ", ".join(f"`{name}`" for name in HealingLimits().to_dict())


class GpuIncidentEntrySerializer(serializers.ModelSerializer[IncidentEntry]):
    class Meta:
        model = IncidentEntry
        fields = ("at", "state", "actor", "words")


@example(examples.INCIDENT)
class GpuIncidentSerializer(serializers.ModelSerializer[Incident]):
    cluster = serializers.CharField(source="node.cluster.name")
    node = serializers.CharField(source="node.name")
    title = serializers.CharField()
    severity = serializers.ChoiceField(choices=FindingSeverity.choices)
    state = serializers.ChoiceField(choices=IncidentState.choices)
    ladder = serializers.ListField(child=serializers.CharField())
    rung = serializers.IntegerField(help_text="Index of the action; its length: the ladder is at its end.")
    action = serializers.CharField(help_text="Of the rung.")
    drill = serializers.IntegerField(
        source="drill_id", allow_null=True, help_text="The drill that it belongs to; null: it is real."
    )
    hold = serializers.CharField(help_text="The guard that holds it, empty: none.")
    waits_for_approval = serializers.BooleanField()
    is_quarantined = serializers.BooleanField(help_text="Cordoned and tainted for this incident.")
    former_cordon = serializers.DictField(
        child=serializers.CharField(), allow_null=True, help_text="Whoever had cordoned it before."
    )
    check_result = serializers.DictField(allow_null=True, help_text="What the last check Job found.")

    class Meta:
        model = Incident
        fields = (
            "id",
            "cluster",
            "node",
            "pool",
            "fault",
            "title",
            "device",
            "gpu_uuid",
            "severity",
            "rule",
            "state",
            "state_since",
            "reason",
            "ladder",
            "rung",
            "action",
            "hold",
            "hold_reason",
            "waits_for_approval",
            "approved_by",
            "held_by",
            "is_quarantined",
            "former_cordon",
            "check_result",
            "acts",
            "first_at",
            "opened_at",
            "quarantined_at",
            "acted_at",
            "returned_at",
            "ended_at",
            "drill",
        )


@example(examples.TIMELINE)
class GpuIncidentTimelineSerializer(serializers.Serializer[Incident]):
    results = GpuIncidentEntrySerializer(many=True)
    next = serializers.CharField(allow_null=True)
    previous = serializers.CharField(allow_null=True)


@example(examples.EVIDENCE)
class GpuIncidentEvidenceSerializer(serializers.Serializer[Incident]):
    incident = serializers.IntegerField()
    evidence = serializers.DictField(
        help_text="Serials, readings and outputs of the machine's tools from before the last action."
    )


@example(examples.REASON)
class GpuDeedSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=MAX_REASON)


@example(examples.STOPPING)
class GpuStopSerializer(GpuDeedSerializer):
    stop_drains = serializers.BooleanField(
        required=False, default=False, help_text="Drains of healing that are under way stop, too."
    )


@example(examples.CANCELLING)
class GpuCancellingSerializer(GpuDeedSerializer):
    return_to_service = serializers.BooleanField(
        required=False, default=False, help_text="The machine returns unverified; else it stays as it is."
    )


class GpuWindowSerializer(serializers.Serializer[Any]):
    start = serializers.CharField(help_text="`22:00`")
    end = serializers.CharField(help_text="`05:00`: of the next day, as it is earlier.")
    days = serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=6), required=False, help_text="0: Monday."
    )
    time_zone = serializers.CharField(required=False)


@extend_schema_serializer(many=False)
@example(examples.POLICY)
class GpuHealingSerializer(serializers.ModelSerializer[HealingPolicy]):
    mode = serializers.ChoiceField(choices=HealingMode.choices)
    dry_clusters = serializers.ListField(child=serializers.CharField())
    windows = GpuWindowSerializer(many=True, help_text="Actions wait for one of them; none: at any time.")
    drain = serializers.DictField(help_text="Of the options of a drain, what differs for healing.")
    limits = serializers.SerializerMethodField(help_text="All of them, defaults included.")
    two_people = serializers.BooleanField(
        source="needs_two_people",
        help_text="What lets healing do more takes effect once two people have asked for the same.",
    )
    waiting_changes = serializers.DictField(
        child=serializers.CharField(),
        help_text="What somebody has asked for, by name (an action that shall need no approval, mode, "
        "limits.slots_percent, rule:NAME), and who did: a second person is missing.",
    )

    class Meta:
        model = HealingPolicy
        fields = (
            "mode",
            "dry_clusters",
            "windows",
            "drain",
            "limits",
            "two_people",
            "waiting_changes",
            "kill_switch_at",
            "kill_switch_by",
            "kill_switch_reason",
        )

    def get_limits(self, row: HealingPolicy) -> dict[str, Any]:
        return row.figures.to_dict()


@example(examples.POLICY_CHANGE)
class GpuHealingChangeSerializer(serializers.Serializer[Any]):
    """Fields of a change; fields that are not given stay as they are."""

    mode = serializers.ChoiceField(choices=HealingMode.choices, required=False)
    dry_clusters = serializers.ListField(child=serializers.CharField(max_length=63), required=False)
    windows = GpuWindowSerializer(many=True, required=False)
    drain = serializers.DictField(required=False)
    two_people = serializers.BooleanField(required=False)
    limits = serializers.DictField(
        required=False, help_text=f"What differs from the defaults; the others have theirs. {LIMITS}."
    )
    reason = serializers.CharField(max_length=MAX_REASON)


@example(examples.POOL)
class GpuPoolSerializer(serializers.ModelSerializer[HealingPool]):
    slots_taken = serializers.IntegerField(source="taken", help_text="Machines in repair at the moment.")

    class Meta:
        model = HealingPool
        fields = ("id", "name", "slots_taken", "breaker_opened_at", "breaker_reason", "breaker_reset_at")


@example(examples.CLOSING_BREAKER)
class GpuBreakerSerializer(GpuDeedSerializer):
    backlog = serializers.ChoiceField(
        choices=("replay", "discard"), help_text="What becomes of incidents of which nothing was done."
    )
