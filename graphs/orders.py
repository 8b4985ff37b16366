"""Orders of plans out of a graph's rows, and the parts of a plan that workers take."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from django.utils.translation import gettext as _

from graphs.errors import InvalidGraph
from graphs.models import Graph
from graphs.planning.documents import request_of
from graphs.planning.model import GraphPlanningError
from graphs.planning.requests import request_document
from serving.graphs.description import GraphDescription
from serving.graphs.plan import LEAST_BYTES, GraphPlan


def description_of(graph: Graph) -> GraphDescription:
    return GraphDescription.parse(graph.document)


def plan_request(
    graph: Graph,
    *,
    objective: str,
    rate: float | None = None,
    latency_seconds: float | None = None,
    machines: Sequence[Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return the input of the planner. Raises InvalidGraph with the fields that stand in its way."""
    description = description_of(graph)
    profiles = list(graph.profiles.order_by("task", "option"))
    missing = [task.name for task in description.tasks if not any(one.task == task.name for one in profiles)]
    if missing:
        none = _("Not profiled yet: %(tasks)s. Run `slipway graph profile` first.")
        raise InvalidGraph(fields={"tasks": [none % {"tasks": ", ".join(missing)}]})
    if not machines:
        machines = [max(profiles, key=lambda one: one.measured_at).machine]
    document = request_document(
        description,
        [{**one.figures, "task": one.task, "option": one.option} for one in profiles],
        machines=machines,
        objective=objective,
        rate=rate,
        latency_seconds=latency_seconds,
    )
    try:
        request_of(document)
    except GraphPlanningError as error:
        raise InvalidGraph(fields={error.field: [_(error.sentence) % error.values]}) from None
    return document


def machines_of(plan: Mapping[str, Any]) -> set[str]:
    """Return the machines on which a plan has replicas."""
    return {place["machine"] for one in plan["tasks"] for place in one["places"]}


def worker_plan(
    runtime: Mapping[str, Any], graph: GraphDescription, *, number: int, of: int, waiting: int
) -> dict[str, Any]:
    """Return the plan as worker `number` takes it, one of `of` that share the plan of a machine.

    Each has at least one process per task, so that more workers than replicas take more than the plan.
    `waiting`: items that may wait at this one; 0: no limit.
    """
    plan = GraphPlan.parse(runtime, graph)
    tasks = {
        name: replace(
            one,
            replicas=len(range(number, one.replicas, of)) or 1,
            gpus=one.gpus[number::of] or one.gpus,
            cores=one.cores[number::of] or one.cores,
        )
        for name, one in plan.tasks.items()
    }
    entry = replace(
        plan.entry,
        items=ceil(plan.entry.items / of),
        bytes=max(LEAST_BYTES, plan.entry.bytes // of),
        waiting=waiting,
    )
    return replace(plan, tasks=tasks, entry=entry).document()
