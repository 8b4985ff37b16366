from typing import Any

from rest_framework import serializers

from common.api.examples import example
from common.audit import MAX_REASON
from graphs.backends.kuberay import RayState
from graphs.models import Graph, TaskGraphPlan, TaskProfile
from graphs.planning.model import PlanObjective
from graphs.states import AdaptMode, GraphItemState, GraphPlanState, GraphState, PlanKind

TIME = "2026-11-20T08:00:00Z"
DIGEST = "sha256:4c1b"
NEW = {"name": "translate-image", "team": "speech", "version": "translate-image:v1"}
ADAPTATION = {
    "adapt": "advise",
    "gain_percent": 10,
    "horizon_seconds": 3600,
    "dwell_seconds": 600,
    "starts_per_day": 12,
}
ROW = {
    "id": 7,
    **NEW,
    "description": "",
    "state": "running",
    **ADAPTATION,
    "digest": DIGEST,
    "created_at": TIME,
    "created_by": "olga",
}
ITEM = {
    "id": "translate-v1-0:41",
    "worker": "translate-v1-0",
    "state": "failed",
    "arrived": TIME,
    "seconds": 1.4,
    "reason": "Ocr: ValueError: the picture cannot be decoded",
    "retry_of": "",
    "inputs": ["picture"],
    "outputs": {},
}
CARD = {"name": "0", "kind": "H100", "memory": 85899345920}
MACHINE = {"name": "box", "cores": 16, "memory": 68719476736, "cards": [CARD]}
BATCH = {
    "size": 4,
    "seconds": 0.031,
    "deviation": 0.002,
    "half_width": 0.0008,
    "calls": 24,
    "memory": 734003200,
    "card_memory": 0,
}
FIGURES = {
    "task": "Ocr",
    "option": "cpu",
    "times": [BATCH],
    "cores": 0.98,
    "card": "",
    "card_time": 1.0,
    "load_seconds": 0.7,
    "bytes_in": 1228800.0,
    "bytes_out": 2100.0,
    "visits": 1.0,
    "interference": 1.12,
    "neighbours": 15,
}
PROFILE = {
    "task": "Ocr",
    "option": "cpu",
    "stale": False,
    "image": "",
    "driver": "",
    "figures": {name: value for name, value in FIGURES.items() if name not in ("task", "option")},
    "machine": MACHINE,
    "measured_at": TIME,
}
WISH = {"objective": "throughput", "latency_seconds": 2.0}
RESULT = {
    "plan": {
        "rate": 8.4,
        "latency": 0.9,
        "method": "milp",
        "gap": 0.02,
        "tasks": [
            {
                "task": "Ocr",
                "option": "cpu",
                "batch": 4,
                "wait": 0.05,
                "replicas": 3,
                "capacity": 8.7,
                "latency": 0.4,
                "busy": 0.96,
            }
        ],
    },
    "explanation": {
        "bottlenecks": [{"kind": "cores", "name": "box", "share": 0.95}],
        "bubbles": {"Ocr": 0.04},
        "what_if": [{"more": "core", "value": 9.1, "gain": 0.083}],
        "refusals": [{"task": "Ocr", "option": "H100", "reason": "no_card", "value": None, "gain": None}],
    },
}
PLAN = {
    "id": 12,
    "graph": 7,
    "kind": "ordered",
    "state": "proposed",
    "reason": "",
    "adaptation": {},
    "request": WISH,
    "result": RESULT,
    "runtime": {"format": 1, "tasks": {}},
    "created_at": TIME,
    "created_by": "olga",
    "started_at": None,
}


@example(ROW)
class GraphSerializer(serializers.ModelSerializer[Graph]):
    team = serializers.CharField(source="team.name")
    version = serializers.CharField(help_text="Of the registry, with the graph's code.")
    state = serializers.ChoiceField(GraphState.choices)
    adapt = serializers.ChoiceField(
        AdaptMode.choices,
        help_text="When workers take longer or shorter than planned: `advise` makes a plan and its gain, "
        "`approve` also asks for its start, `automatic` starts it.",
    )
    gain_percent = serializers.IntegerField(
        min_value=1, max_value=1000, help_text="Least gain over the cost of the start within the horizon."
    )
    horizon_seconds = serializers.IntegerField(min_value=60)
    dwell_seconds = serializers.IntegerField(
        min_value=0, help_text="For which a plan stays active before an adapted one replaces it."
    )
    starts_per_day = serializers.IntegerField(min_value=1, help_text="Adapted plans started within 24 hours.")

    class Meta:
        model = Graph
        fields = tuple(ROW)


@example(
    {
        **ROW,
        "graph": {"format": 1, "name": "translate-image", "tasks": [], "nodes": []},
        "plan": PLAN,
        "look": {"rate": 0.4, "in_flight": 2, "waiting": 0, "workers": [], "tasks": {}},
        "profiling": {},
    }
)
class GraphDetailSerializer(GraphSerializer):
    graph = serializers.DictField(source="document", help_text="Inputs, tasks, nodes and outputs.")
    plan = serializers.SerializerMethodField(help_text="The active one; null: none was started.")
    look = serializers.DictField(
        help_text="Its workers some seconds ago: rates, queues, busy shares by task. Empty: never asked."
    )

    profiling = serializers.DictField(
        help_text="Profile that was ordered: `waiting`, `running`, or `failed` with its reason. Empty: none."
    )

    class Meta(GraphSerializer.Meta):
        fields = (*ROW, "graph", "plan", "look", "profiling")

    def get_plan(self, row: Graph) -> dict[str, Any] | None:
        active = row.plans.filter(state=GraphPlanState.ACTIVE).first()
        return None if active is None else dict(GraphPlanSerializer(active).data)


@example({"adapt": "automatic", "gain_percent": 15})
class GraphChange(serializers.ModelSerializer[Graph]):
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)

    class Meta:
        model = Graph
        fields = (*ADAPTATION, "reason")


@example(ITEM)
class GraphItemSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="WORKER:NUMBER.")
    worker = serializers.CharField()
    state = serializers.ChoiceField(GraphItemState.choices)
    arrived = serializers.DateTimeField()
    seconds = serializers.FloatField(help_text="Since it arrived, to its end.")
    reason = serializers.CharField(help_text="Why it failed.")
    retry_of = serializers.CharField(help_text="ID of the failed item that it repeats; empty: none.")
    inputs = serializers.ListField(
        child=serializers.CharField(), help_text="Those that are kept: a failed item can be run again then."
    )
    outputs = serializers.DictField(
        child=serializers.CharField(), help_text="Those that are kept, with the suffix of their type."
    )


@example({"items": [ITEM], "unheard": []})
class GraphItemsSerializer(serializers.Serializer[Any]):
    items = GraphItemSerializer(many=True)
    unheard = serializers.ListField(child=serializers.CharField(), help_text="Workers that did not answer.")


@example({"item": "translate-v1-0:41", "reason": "The model was mended."})
class RetryItem(serializers.Serializer[Any]):
    item = serializers.CharField(max_length=200, help_text="ID of a failed item whose inputs are kept.")
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


@example({"item": "translate-v1-0:57"})
class RetriedItem(serializers.Serializer[Any]):
    item = serializers.CharField(help_text="ID of the item that runs instead.")


@example({"version": "translate-image:v2", "graph": {"format": 1, "name": "translate-image"}})
class GraphPushSerializer(serializers.Serializer[Any]):
    version = serializers.CharField(max_length=200, help_text="MODEL:VERSION of the registry, with the code.")
    graph = serializers.DictField(help_text="Description, as `slipway graph push` reads it from the code.")
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


@example({**NEW, "graph": {"format": 1, "name": "translate-image"}})
class NewGraphSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=63)
    team = serializers.CharField(max_length=63, help_text="Owner.")
    description = serializers.CharField(max_length=500, required=False, allow_blank=True)
    version = serializers.CharField(max_length=200, help_text="MODEL:VERSION of the registry, with the code.")
    graph = serializers.DictField(help_text="Description, as `slipway graph push` reads it from the code.")


@example(CARD)
class MachineCardSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=63, help_text="Number of the card on its machine.")
    kind = serializers.CharField(max_length=63)
    memory = serializers.IntegerField(min_value=1, help_text="Bytes.")


@example(MACHINE)
class PlanMachineSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=255)
    cores = serializers.FloatField(min_value=0.1)
    memory = serializers.IntegerField(min_value=1, help_text="Bytes.")
    cards = MachineCardSerializer(many=True, required=False)
    bandwidth = serializers.FloatField(
        min_value=1, required=False, help_text="Bytes a second between tasks; absent: no limit."
    )


@example(BATCH)
class BatchTimeSerializer(serializers.Serializer[Any]):
    size = serializers.IntegerField(min_value=1)
    seconds = serializers.FloatField(min_value=1e-9, help_text="Mean time of one batch.")
    deviation = serializers.FloatField(min_value=0, help_text="Standard deviation, in seconds.")
    half_width = serializers.FloatField(min_value=0, help_text="Of the 95 % interval of the mean.")
    calls = serializers.IntegerField(min_value=1)
    memory = serializers.IntegerField(min_value=0, help_text="Bytes at the peak.")
    card_memory = serializers.IntegerField(min_value=0)


@example(FIGURES)
class TaskFiguresSerializer(serializers.Serializer[Any]):
    task = serializers.CharField(max_length=100)
    option = serializers.CharField(max_length=63, help_text="`cpu`, the kind of card, or `service`.")
    times = BatchTimeSerializer(many=True, allow_empty=False)
    cores = serializers.FloatField(min_value=0, help_text="Busy while a batch runs.")
    card = serializers.CharField(max_length=63, allow_blank=True, help_text="Kind of card; empty: none.")
    card_time = serializers.FloatField(min_value=0, max_value=1, help_text="Share of the card's time.")
    load_seconds = serializers.FloatField(min_value=0)
    bytes_in = serializers.FloatField(min_value=0, help_text="By call of one item.")
    bytes_out = serializers.FloatField(min_value=0)
    visits = serializers.FloatField(min_value=1e-9, help_text="Calls for one item of the graph.")
    interference = serializers.FloatField(
        min_value=1, default=1.0, help_text="Times as long that its largest batch takes beside other tasks."
    )
    neighbours = serializers.IntegerField(
        min_value=0, default=0, help_text="Processes of other tasks that ran beside it; 0: not measured."
    )


@example(
    {"digest": DIGEST, "code": "9f86d081", "machine": MACHINE, "image": "", "driver": "", "tasks": [FIGURES]}
)
class ProfileReport(serializers.Serializer[Any]):
    digest = serializers.CharField(max_length=80, help_text="Of the graph that was measured.")
    code = serializers.CharField(max_length=64, help_text="SHA-256 of the file with the graph.")
    machine = PlanMachineSerializer()
    image = serializers.CharField(max_length=300, required=False, allow_blank=True)
    driver = serializers.CharField(max_length=63, required=False, allow_blank=True)
    tasks = TaskFiguresSerializer(many=True)


@example(PROFILE)
class TaskProfileSerializer(serializers.ModelSerializer[TaskProfile]):
    stale = serializers.BooleanField(source="is_stale", help_text="The graph has another model now.")
    figures = serializers.DictField()
    machine = serializers.DictField()

    class Meta:
        model = TaskProfile
        fields = tuple(PROFILE)


@example(WISH)
class PlanWish(serializers.Serializer[Any]):
    objective = serializers.ChoiceField([one.value for one in PlanObjective], default="throughput")
    rate = serializers.FloatField(
        min_value=1e-9, required=False, help_text="Items a second to reach; needed for cost and latency."
    )
    latency_seconds = serializers.FloatField(
        min_value=1e-9, required=False, help_text="Bound on every path; absent: none."
    )
    machines = PlanMachineSerializer(
        many=True, required=False, help_text="Default: the one of the newest profile."
    )


RAY_RUN = {
    "cluster": "prod",
    "name": "translate-1",
    "is_job": True,
    "state": "queued",
    "reason": "Queue full.",
}
RAY_NAME = {"cluster": "prod", "name": "translate-1"}
RAY_PODS = {"cores": 8, "memory_gib": 32, "gpus": 1}


@example(RAY_RUN)
class RayRunSerializer(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    name = serializers.CharField()
    is_job = serializers.BooleanField(help_text="Over many items; else it serves single ones.")
    state = serializers.ChoiceField([one.value for one in RayState])
    reason = serializers.CharField(help_text="Why it is in that state; empty where that says all.")


@example({"runs": [RAY_RUN]})
class RayRunsSerializer(serializers.Serializer[Any]):
    runs = RayRunSerializer(many=True)


@example(RAY_PODS)
class RayPodsSerializer(serializers.Serializer[Any]):
    cores = serializers.IntegerField(min_value=1, max_value=4_096)
    memory_gib = serializers.IntegerField(min_value=1, max_value=65_536)
    gpus = serializers.IntegerField(min_value=0, max_value=64, default=0)


@example({**RAY_NAME, "reason": "Wrong pictures."})
class RayRunName(serializers.Serializer[Any]):
    cluster = serializers.CharField(max_length=63)
    name = serializers.RegexField(r"^[a-z]([-a-z0-9]{0,45}[a-z0-9])?$", help_text="Of the object there.")
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


@example(
    {
        **RAY_NAME,
        "image": "registry.example/translate:1",
        "file": "/app/translate.py",
        "pods": RAY_PODS,
        "source": "/data/pictures",
        "out": "/data/results",
        "queue": "team-a",
        "volumes": {"/data": "pictures"},
    }
)
class RayOrderSerializer(RayRunName):
    image = serializers.CharField(max_length=300, help_text="With Ray, Slipway and the graph's packages.")
    file = serializers.CharField(max_length=500, help_text="Of the graph, in the image or on a volume.")
    pods = RayPodsSerializer(help_text="Size of each worker pod; their number follows from the plan.")
    source = serializers.CharField(  # type: ignore[assignment]
        max_length=500, required=False, help_text="Absent: a service."
    )
    out = serializers.CharField(max_length=500, required=False, help_text="Directory for the results.")
    queue = serializers.CharField(max_length=63, required=False, help_text="Of Kueue.")
    volumes = serializers.DictField(
        child=serializers.CharField(max_length=253), required=False, help_text="Volume claims by path."
    )


@example(PLAN)
class GraphPlanSerializer(serializers.ModelSerializer[TaskGraphPlan]):
    state = serializers.ChoiceField(GraphPlanState.choices)
    kind = serializers.ChoiceField(PlanKind.choices, help_text="`adapted`: to what workers measured.")
    adaptation = serializers.DictField(
        help_text="Of an adapted one: factors of times by task, rates before and after, share of the gain."
    )
    request = serializers.DictField(help_text="Input of the planner.")
    result = serializers.DictField(help_text="`plan` with `explanation`, or `shortages`.")
    runtime = serializers.DictField(help_text="As `slipway graph run --plan` takes it.")

    class Meta:
        model = TaskGraphPlan
        fields = tuple(PLAN)
