from typing import Any

from rest_framework import serializers

from capacity.models import MOST_CARDS, MOST_WORKLOAD_MACHINES, Allocation, Workload
from capacity.states import WorkloadKind, WorkloadState
from common.api.examples import example

TIME = "2026-11-20T08:00:00Z"
WISH = {
    "name": "llama-finetune",
    "team": "speech",
    "pool": "training",
    "kind": "training",
    "command": ["python", "train.py"],
    "image": "",
    "claim": "",
    "cards": 8,
    "machines": 1,
    "priority": 0,
    "is_preemptible": True,
    "writes_checkpoints": True,
    "may_lose_work": False,
    "checkpoint_seconds": 600,
    "restart_seconds": 60,
    "expected_seconds": 7200,
    "description": "",
}
HELD = {"machine": "gpu-3", "card": 0, "lender": None}
ALLOCATION = {
    "cluster": "embedded",
    **HELD,
    "holder": "tune",
    "workload": 4,
    "service": "",
    "pool": "training",
    "since": TIME,
    "lease_until": None,
}
SHOWN = {
    "id": 4,
    **WISH,
    "state": "running",
    "problem": "",
    "why": "",
    "runs": 1,
    "cards_held": [HELD],
    "checkpoint_at": TIME,
    "resumed_at": None,
    "lost_seconds": 0.0,
    "held_by": "",
    "created_by": "dina",
    "created_at": TIME,
    "started_at": TIME,
    "ended_at": None,
    "log_tail": "",
}
LOG = {"workload": 4, "state": "running", "run": 1, "is_live": True, "log": "step 1200"}


@example(HELD)
class HeldCardSerializer(serializers.ModelSerializer[Allocation]):
    lender = serializers.CharField(source="lender.name", default=None, allow_null=True)

    class Meta:
        model = Allocation
        fields = tuple(HELD)


@example(ALLOCATION)
class AllocationSerializer(HeldCardSerializer):
    """A card, and the workload or service that holds it."""

    cluster = serializers.CharField(source="cluster.name")
    holder = serializers.CharField(help_text="Name of the workload or service.")
    pool = serializers.CharField(
        source="workload.pool.name", default=None, allow_null=True, help_text="Of the workload."
    )

    class Meta:
        model = Allocation
        fields = tuple(ALLOCATION)


@example(SHOWN)
class WorkloadSerializer(serializers.ModelSerializer[Workload]):
    team = serializers.CharField(source="team.name")
    pool = serializers.CharField(source="pool.name")
    kind = serializers.ChoiceField(WorkloadKind.choices)
    state = serializers.ChoiceField(WorkloadState.choices)
    command = serializers.ListField(child=serializers.CharField())
    cards_held = HeldCardSerializer(source="allocations", many=True)
    why = serializers.CharField(help_text="`problem` in words: why it waits, or what is wrong.")
    log_tail = serializers.CharField(
        help_text="End of the log of its latest run, once that has ended; `log/` has it while it runs."
    )

    class Meta:
        model = Workload
        fields = tuple(SHOWN)


@example(LOG)
class WorkloadLogSerializer(serializers.Serializer[Any]):
    workload = serializers.IntegerField()
    state = serializers.ChoiceField(WorkloadState.choices)
    run = serializers.IntegerField(help_text="Whose log it is; 0: it has not run yet.")
    is_live = serializers.BooleanField(help_text="The run goes on: more may come.")
    log = serializers.CharField(help_text="Empty: the run has written nothing yet, or has left nothing.")


@example(WISH)
class NewWorkloadSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=63)
    team = serializers.CharField(max_length=63, help_text="Owner.")
    pool = serializers.CharField(max_length=63, help_text="Name of a pool of machines or cards.")
    kind = serializers.ChoiceField(WorkloadKind.choices, required=False)
    command = serializers.ListField(
        child=serializers.CharField(), allow_empty=False, help_text="Program and arguments."
    )
    image = serializers.CharField(
        max_length=300, required=False, allow_blank=True, help_text="By digest; blank: that of jobs."
    )
    claim = serializers.CharField(
        max_length=63, required=False, allow_blank=True, help_text="Volume claim for its checkpoints."
    )
    cards = serializers.IntegerField(min_value=1, max_value=MOST_CARDS, help_text="Of each of its machines.")
    machines = serializers.IntegerField(
        min_value=1,
        max_value=MOST_WORKLOAD_MACHINES,
        required=False,
        help_text="On which it runs at once, with so many cards of each.",
    )
    priority = serializers.IntegerField(required=False)
    is_preemptible = serializers.BooleanField(required=False)
    writes_checkpoints = serializers.BooleanField(
        required=False, help_text="It answers the request to write one."
    )
    may_lose_work = serializers.BooleanField(required=False, help_text="It may be stopped without one.")
    checkpoint_seconds = serializers.IntegerField(min_value=1, max_value=86_400, required=False)
    restart_seconds = serializers.IntegerField(min_value=0, max_value=86_400, required=False)
    expected_seconds = serializers.IntegerField(min_value=1, allow_null=True, required=False)
    description = serializers.CharField(max_length=500, required=False, allow_blank=True)
