"""Online and offline groups of a service over REST."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from capacity.api.fragment_serializers import TIME
from capacity.models import (
    GroupSwitch,
    ServiceGroups,
)
from capacity.models.groups import LONGEST_BOUND_MS, LONGEST_WAIT_SECONDS
from common.api.examples import example

GROUP_RULES = {"least_online": 1, "wait_seconds": 5, "latency_bound_ms": 500}


GROUP_LOOK = {
    "at": 1795939200.0,
    "ready": 4,
    "online": 2,
    "offline": 2,
    "switching": 0,
    "busy": 0.62,
    "load": 1.3,
    "need": 1.5,
    "target": 0.87,
    "jobs": 40,
    "jobs_running": 2,
    "latency_ms": 120.0,
    "bound_ms": 500,
    "wanted": 2,
    "why": "within_band",
    "held": "",
}


SWITCH = {
    "at": TIME,
    "online_before": 4,
    "online_after": 2,
    "why": "within_band",
    "inputs": GROUP_LOOK,
    "rejected": [],
    "ended_at": TIME,
    "seconds": 1.9,
}


@example(GROUP_RULES)
class ServiceGroupsWish(serializers.Serializer[Any]):
    least_online = serializers.IntegerField(min_value=1, required=False, help_text="Workers.")
    wait_seconds = serializers.IntegerField(
        min_value=0,
        max_value=LONGEST_WAIT_SECONDS,
        required=False,
        help_text="For which a job may go on before its worker goes online; then it is requeued.",
    )
    latency_bound_ms = serializers.IntegerField(
        min_value=1,
        max_value=LONGEST_BOUND_MS,
        required=False,
        allow_null=True,
        help_text="TTFT P95 above which all workers go online at once; null: no bound.",
    )


@example(GROUP_LOOK)
class GroupLookSerializer(serializers.Serializer[Any]):
    """Groups at the last look; counts are workers."""

    at = serializers.FloatField(help_text="Seconds since 1970.")
    ready = serializers.IntegerField()
    online = serializers.IntegerField(help_text="That get requests.")
    offline = serializers.IntegerField(help_text="That take jobs.")
    switching = serializers.IntegerField(help_text="Not yet as decided.")
    busy = serializers.FloatField(allow_null=True, help_text="Of those online, 0 to 1.")
    load = serializers.FloatField()
    need = serializers.FloatField()
    target = serializers.FloatField(help_text="Utilisation that is aimed at.")
    jobs = serializers.IntegerField(allow_null=True, help_text="That wait or run; null: no answer.")
    jobs_running = serializers.IntegerField()
    latency_ms = serializers.FloatField(allow_null=True, help_text="TTFT P95 since the look before.")
    bound_ms = serializers.IntegerField(allow_null=True)
    wanted = serializers.IntegerField(help_text="Workers online.")
    why = serializers.CharField()
    held = serializers.CharField(help_text="Code of the guard that keeps the groups as they are.")


@example(SWITCH)
class GroupSwitchSerializer(serializers.ModelSerializer[GroupSwitch]):
    inputs = GroupLookSerializer()
    rejected = serializers.ListField(child=serializers.DictField(), help_text="`{online, why}` of each.")

    class Meta:
        model = GroupSwitch
        fields = tuple(SWITCH)


@example(
    {
        "service": "chat",
        "pool": 7,
        **GROUP_RULES,
        "switch_seconds": 1.9,
        "look": GROUP_LOOK,
        "switches": [SWITCH],
    }
)
class ServiceGroupsSerializer(serializers.ModelSerializer[ServiceGroups]):
    service = serializers.CharField(source="member.service")
    pool = serializers.IntegerField(source="member.pool_id")
    look = GroupLookSerializer(allow_null=True, help_text="null before the first look.")
    switches = serializers.SerializerMethodField(help_text="The latest decisions.")

    class Meta:
        model = ServiceGroups
        fields = ("service", "pool", *GROUP_RULES, "switch_seconds", "look", "switches")

    @extend_schema_field(GroupSwitchSerializer(many=True))
    def get_switches(self, row: ServiceGroups) -> list[Any]:
        """Only the view reads them beforehand, for all rows at once."""
        found = getattr(row, "latest_switches", None)
        latest = row.switches.all()[:10] if found is None else found
        return list(GroupSwitchSerializer(latest, many=True).data)
