from typing import Any

from rest_framework import serializers

from capacity.decisions import is_as_made
from capacity.models import (
    CapacityPlan,
    CapacityStop,
    Pool,
    PoolMember,
)
from capacity.states import (
    CapacityPlanKind,
    CapacityPlanState,
    Granularity,
    PoolKind,
    PoolMode,
    WorkloadAdmission,
)
from clusters.models import MAX_REPLICAS
from common.api.examples import example

MEMBER = {"service": "chat", "guarantee": 1, "limit": 8, "weight": 1.0}
LOOK = {
    "service": "chat",
    "deployment": "chat-7",
    "have": 2,
    "ready": 2,
    "busy": 0.91,
    "in_flight": 15,
    "waiting": 3,
    "load": 1.9,
    "need": 2.6,
    "wanted": 3,
    "granted": 3,
    "target": 0.75,
    "why": "need_rose",
    "held": "",
    "bound": "pool_full",
    "queue": None,
}
CHANGE = {
    "service": "chat",
    "deployment": "chat-7",
    "before": 2,
    "after": 3,
    "why": "need_rose",
}
SETTINGS = {
    "workers": 8,
    "mode": "advise",
    "budget": 10,
    "dwell_seconds": 300,
    "parallel_starts": 4,
    "admission": "slipway",
    "selector": {},
    "inventory": [],
    "guarantee": None,
    "lending_limit": None,
    "borrowing_limit": None,
    "priority": 0,
    "defragment_every_hours": None,
    "defragment_after_seconds": None,
}
NEW = {
    "name": "shared",
    "team": "speech",
    "cluster": "embedded",
    "description": "",
    "kind": "serving",
    "granularity": "worker",
}
TIME = "2026-11-20T08:00:00Z"
PLAN = {
    "id": 12,
    "pool": 7,
    "kind": "workers",
    "state": "proposed",
    "reason": "",
    "changes": [CHANGE],
    "looks": [LOOK],
    "gain": {"before": {"8": 0}, "after": {"8": 1}, "cost": 640, "freed": ["gpu-07"], "missing": 0},
    "inputs": {"workers": 6, "budget": 10, "services": {"chat": {"guarantee": 1, "switch_seconds": 42.0}}},
    "cost": 42.0,
    "digest": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "is_as_made": True,
    "decided_by": "",
    "undoes": None,
    "created_at": TIME,
    "ended_at": None,
}


@example(LOOK)
class LookSerializer(serializers.Serializer[Any]):
    """A service at the last look; counts are workers."""

    service = serializers.CharField()
    deployment = serializers.CharField()
    have = serializers.IntegerField(help_text="Workers that are wanted now.")
    ready = serializers.IntegerField()
    busy = serializers.FloatField(allow_null=True, help_text="0 to 1; null: no heartbeats.")
    in_flight = serializers.IntegerField()
    waiting = serializers.IntegerField(help_text="Requests in queues.")
    load = serializers.FloatField(help_text="Work that arrives, in workers.")
    need = serializers.FloatField(help_text="The load at the target utilisation, with what waits.")
    wanted = serializers.IntegerField(help_text="Recommended by the law of scaling.")
    granted = serializers.IntegerField(help_text="What the pool gives.")
    target = serializers.FloatField(help_text="Utilisation that is aimed at.")
    why = serializers.CharField(help_text="A code: `need_rose`, `within_band`, ...")
    held = serializers.CharField(help_text="Code of the guard that holds it back, if one does.")
    bound = serializers.CharField(
        default="",
        help_text="Code of what keeps a plan from the recommended workers.",
    )
    queue = serializers.FloatField(
        allow_null=True, default=None, help_text="Items unfinished in its queue; null: it has none."
    )


@example({**MEMBER, "switch_seconds": 42.0, "look": LOOK})
class PoolMemberSerializer(serializers.ModelSerializer[PoolMember]):
    look = LookSerializer(allow_null=True, help_text="null before the first look.")

    class Meta:
        model = PoolMember
        fields = (*MEMBER, "switch_seconds", "look")


@example(MEMBER)
class PoolMemberWish(serializers.Serializer[Any]):
    guarantee = serializers.IntegerField(
        min_value=0, max_value=MAX_REPLICAS, help_text="Workers it always has."
    )
    limit = serializers.IntegerField(min_value=0, max_value=MAX_REPLICAS, help_text="Workers at most.")
    weight = serializers.FloatField(
        min_value=0.01, required=False, help_text="Of its headroom beside others'."
    )


@example({"name": "job-tune-5c1", "why": "Its queue has no free cards."})
class QueuedWorkloadSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="Kueue's Workload.")
    why = serializers.CharField(help_text="Why it does not run, in words.")


@example(
    {"queue": "pool-7", "cards": 16, "used": 6, "borrowed": 2, "admitted": 2, "pending": 0, "workloads": []}
)
class QuotaSerializer(serializers.Serializer[Any]):
    """Kueue's words about the pool's ClusterQueue."""

    queue = serializers.CharField(help_text="Its LocalQueue, for jobs that others submit.")
    cards = serializers.IntegerField(help_text="Of its machines.")
    used = serializers.IntegerField(help_text="Cards of admitted workloads.")
    borrowed = serializers.IntegerField(help_text="Of these, cards of other pools.")
    admitted = serializers.IntegerField(help_text="Workloads.")
    pending = serializers.IntegerField(help_text="Workloads.")
    workloads = QueuedWorkloadSerializer(many=True, help_text="Those that wait.")


@example(
    {
        "id": 7,
        **NEW,
        **SETTINGS,
        "quota": None,
        "observed_at": TIME,
        "problem": "",
        "members": [],
        "created_at": TIME,
    }
)
class PoolSerializer(serializers.ModelSerializer[Pool]):
    team = serializers.CharField(source="team.name")
    cluster = serializers.CharField(source="cluster.name")
    mode = serializers.ChoiceField(PoolMode.choices, source="state")
    kind = serializers.ChoiceField(PoolKind.choices)
    granularity = serializers.ChoiceField(Granularity.choices)
    admission = serializers.ChoiceField(WorkloadAdmission.choices)
    quota = QuotaSerializer(allow_null=True, help_text="Of Kueue; null: it was told none.")
    selector = serializers.DictField(child=serializers.CharField())
    inventory = serializers.ListField(child=serializers.DictField())
    members = PoolMemberSerializer(source="memberships", many=True)

    class Meta:
        model = Pool
        fields = ("id", *NEW, *SETTINGS, "quota", "observed_at", "problem", "members", "created_at")


class PoolMemberEntry(PoolMemberWish):
    service = serializers.CharField(max_length=50)


class PoolSettingsSerializer(serializers.Serializer[Any]):
    members = PoolMemberEntry(
        many=True, required=False, help_text="All services of the pool; others leave it. Left out: they stay."
    )
    workers = serializers.IntegerField(
        min_value=1,
        max_value=MAX_REPLICAS,
        required=False,
        help_text="That may run at once, of all services of a serving pool.",
    )
    mode = serializers.ChoiceField(PoolMode.choices, source="state", required=False)
    budget = serializers.IntegerField(
        min_value=1, required=False, help_text="Workers that one plan may move."
    )
    dwell_seconds = serializers.IntegerField(min_value=0, required=False)
    parallel_starts = serializers.IntegerField(min_value=1, required=False)
    description = serializers.CharField(max_length=500, required=False, allow_blank=True)
    admission = serializers.ChoiceField(
        WorkloadAdmission.choices,
        required=False,
        help_text="Who starts workloads; `kueue` in Kubernetes alone.",
    )
    selector = serializers.DictField(
        child=serializers.CharField(), required=False, help_text="Labels of the machines that the pool owns."
    )
    inventory = serializers.ListField(
        child=serializers.DictField(),
        required=False,
        help_text="`{machine, cards, model, rack}` of simulated machines, on clusters of one machine.",
    )
    guarantee = serializers.IntegerField(
        min_value=0, allow_null=True, required=False, help_text="Cards it gets back at any time; null: all."
    )
    lending_limit = serializers.IntegerField(
        min_value=0, allow_null=True, required=False, help_text="Cards that others may hold; null: all."
    )
    borrowing_limit = serializers.IntegerField(
        min_value=0,
        allow_null=True,
        required=False,
        help_text="Cards of others it may hold; null: all.",
    )
    priority = serializers.IntegerField(required=False)
    defragment_every_hours = serializers.IntegerField(
        min_value=1, allow_null=True, required=False, help_text="Plan moves that free machines so often."
    )
    defragment_after_seconds = serializers.IntegerField(
        min_value=0, allow_null=True, required=False, help_text="Or once a workload waits so long."
    )


@example({"mode": "automatic", "workers": 12})
class PoolChange(PoolSettingsSerializer):
    """The changes of a pool."""


@example({**NEW, "workers": 8})
class NewPoolSerializer(PoolSettingsSerializer):
    name = serializers.CharField(max_length=63)
    team = serializers.CharField(max_length=63, help_text="Owner.")
    cluster = serializers.CharField(max_length=63)
    kind = serializers.ChoiceField(PoolKind.choices, required=False)
    granularity = serializers.ChoiceField(
        Granularity.choices,
        required=False,
        help_text="By default by its kind.",
    )


@example(CHANGE)
class CapacityChangeSerializer(serializers.Serializer[Any]):
    """A change of workers names service and deployment, with workers before and after; one of workloads names
    workload and name, with `{machine, cards}` or null before and after, and the work that it loses."""

    service = serializers.CharField(required=False)
    deployment = serializers.CharField(required=False)
    workload = serializers.IntegerField(required=False)
    name = serializers.CharField(required=False)
    before = serializers.JSONField(help_text="Workers, or the cards of a machine.")
    after = serializers.JSONField()
    why = serializers.CharField()
    lost = serializers.FloatField(required=False, help_text="Card-seconds.")


@example(PLAN)
class CapacityPlanSerializer(serializers.ModelSerializer[CapacityPlan]):
    state = serializers.ChoiceField(CapacityPlanState.choices)
    kind = serializers.ChoiceField(CapacityPlanKind.choices)
    changes = CapacityChangeSerializer(many=True)
    looks = LookSerializer(many=True)
    gain = serializers.DictField(
        help_text="Of a defragmentation: jobs that could start before and after it, cost in card-seconds. Of "
        "workers: by how many services are short before and after."
    )
    inputs = serializers.DictField(help_text="Limits and guards that it was made under, beside `looks`.")
    cost = serializers.FloatField(
        allow_null=True,
        help_text="Worker-seconds of starts, or card-seconds of lost work.",
    )
    digest = serializers.CharField(help_text="SHA-256 of all that it was made of and what follows.")
    is_as_made = serializers.SerializerMethodField(
        help_text="It still matches `digest`; one that was altered is not applied."
    )

    class Meta:
        model = CapacityPlan
        fields = tuple(PLAN)

    def get_is_as_made(self, row: CapacityPlan) -> bool:
        return is_as_made(row)


@example({"is_on": True, "changed_by": "olga", "reason": "Too many moves.", "changed_at": TIME})
class CapacityStopSerializer(serializers.ModelSerializer[CapacityStop]):
    class Meta:
        model = CapacityStop
        fields = ("is_on", "changed_by", "reason", "changed_at")


@example({"is_on": True, "reason": "Too many moves."})
class StopWish(serializers.Serializer[Any]):
    is_on = serializers.BooleanField(help_text="true: no plan begins or goes on; false: plans may begin.")
    reason = serializers.CharField(max_length=500, required=False, allow_blank=True)
