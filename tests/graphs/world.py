"""A small graph of a team with its profile, as the CLI would send them."""

from datetime import timedelta
from json import loads
from typing import Any

from accounts.models import Team
from common.jobs.runners.fake import FakeRunner
from common.reconcile import Kernel
from graphs import services
from graphs.models import Graph, TaskGraphPlan
from graphs.planning.documents import answer
from graphs.reconcilers import GraphPlanReconciler
from serving.graphs.description import (
    GraphDescription,
    GraphInput,
    GraphOutput,
    NodeDescription,
    TaskDescription,
    ValueSource,
)
from tests.cast import SYSTEM
from tests.clusters.world import version_of
from tests.crash.harness import Clock

GIB = 2**30
MACHINE = {"name": "box", "cores": 4.0, "memory": 16 * GIB, "cards": []}
WISH = {"objective": "throughput"}


def description(name: str = "translate", *, model: str = "") -> GraphDescription:
    def node(task: str, *sources: str) -> NodeDescription:
        return NodeDescription(
            name=task.lower(), task=task, inputs=tuple(ValueSource(name=one) for one in sources), type="Any"
        )

    return GraphDescription(
        name=name,
        inputs=(GraphInput(name="picture", type="Image"),),
        tasks=(
            TaskDescription(name="Decode", kind="function"),
            TaskDescription(name="Ocr", kind="class", max_size=8, model=model),
            TaskDescription(name="Inpaint", kind="class", max_size=4),
            TaskDescription(name="Compose", kind="function"),
        ),
        nodes=(
            node("Decode", "picture"),
            node("Ocr", "decode"),
            node("Inpaint", "decode", "ocr"),
            node("Compose", "inpaint", "ocr"),
        ),
        outputs=(GraphOutput(name="", source=ValueSource(name="compose"), type="bytes"),),
    )


def figures(task: str, seconds: float, *sizes: int) -> dict[str, Any]:
    """Figures of a task that takes 40 % of `seconds` for each batch, and 60 % for each item."""
    times = [
        {
            "size": size,
            "seconds": seconds * (0.4 + 0.6 * size),
            "deviation": 0.01,
            "half_width": 0.004,
            "calls": 20,
            "memory": GIB // 2,
            "card_memory": 0,
        }
        for size in sizes
    ]
    more = {"load_seconds": 0.5, "bytes_in": 1e6, "bytes_out": 1e5, "visits": 1.0}
    return {"task": task, "option": "cpu", "times": times, "cores": 1.0, "card": "", "card_time": 1.0, **more}


TASKS = [
    figures("Decode", 0.01, 1),
    figures("Ocr", 0.4, 1, 2, 4, 8),
    figures("Inpaint", 0.2, 1, 2, 4),
    figures("Compose", 0.02, 1),
]
REPORT = {"digest": description().digest, "code": "0" * 64, "machine": MACHINE, "tasks": TASKS}


def graph_of(team: Team, name: str = "translate", version: str = "story:v1", *, model: str = "") -> Graph:
    row = version_of(team, version)
    document = description(model=model).document()
    return services.create_graph(actor=SYSTEM, team=team, name=name, version=str(row), graph=document)


def planned(graph: Graph, **wish: Any) -> TaskGraphPlan:
    """Profile the graph, and have a plan of it proposed, by the planner in this process."""
    services.record_profile(graph, actor=SYSTEM, **{**REPORT, "digest": graph.digest})
    plan = services.order_plan(graph, actor=SYSTEM, **{**WISH, **wish})
    advance(plan)
    return plan


def advance(plan: TaskGraphPlan) -> None:
    """Let the kernel take every step of the plan; its job is done at once, in this process."""
    clock = Clock()
    kernel = Kernel(clock=clock)
    kernel.register(GraphPlanReconciler(FakeRunner(lambda spec: answer(loads(spec.stdin)))))
    for _ in range(5):
        kernel.sweep()
        clock.pass_(timedelta(seconds=1))
    plan.refresh_from_db()
