"""Requests to the planner, out of a graph with its profiles, and plans as executors take them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from django.utils.translation import gettext as _

from graphs.errors import InvalidGraph
from graphs.models import Graph, TaskProfile
from graphs.planning.documents import request_of
from graphs.planning.model import GraphPlanningError
from serving.graphs.description import LONGEST_WAIT_MS, GraphDescription
from serving.graphs.plan import LEAST_BYTES, EntryLimits, GraphPlan, TaskPlan

LEAST_ITEMS = 16


def description_of(graph: Graph) -> GraphDescription:
    return GraphDescription.parse(graph.document)


def task_edges(graph: GraphDescription) -> list[tuple[str, str]]:
    """Return pairs of tasks of which the second waits for the first.

    Calls of one task from several nodes may lead back to it; such an edge is left out.
    """
    tasks = {node.name: node.task for node in graph.nodes}
    found: list[tuple[str, str]] = []
    after: dict[str, set[str]] = {task.name: set() for task in graph.tasks}
    for node in graph.nodes:
        for source in node.sources:
            pair = (tasks.get(source.name, ""), node.task)
            if not pair[0] or pair[0] == pair[1] or pair in found or pair[0] in after[pair[1]]:
                continue
            found.append(pair)
            for start, ends in after.items():
                if start == pair[0] or pair[0] in ends:
                    ends |= {pair[1], *after[pair[1]]}
    return found


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
    document: dict[str, Any] = {
        "objective": objective,
        "rate": rate,
        "latency_seconds": latency_seconds,
        "machines": [dict(one) for one in machines],
        "edges": task_edges(description),
        "tasks": [
            {
                "name": task.name,
                "max_wait": task.max_wait_ms / 1_000,
                "visits": _mean(one.figures["visits"] for one in profiles if one.task == task.name),
                "item_bytes": _mean(
                    one.figures["bytes_in"] + one.figures["bytes_out"]
                    for one in profiles
                    if one.task == task.name
                ),
                "options": [
                    _option(one, task.max_size)
                    for one in profiles
                    if one.task == task.name and _suits(one, task.device)
                ],
            }
            for task in description.tasks
        ],
    }
    try:
        request_of(document)
    except GraphPlanningError as error:
        raise InvalidGraph(fields={error.field: [error.reason]}) from None
    return document


def _suits(profile: TaskProfile, device: str) -> bool:
    return device == "any" or (device == "cuda") == bool(profile.figures["card"])


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def _option(profile: TaskProfile, max_size: int) -> dict[str, Any]:
    figures = profile.figures
    return {
        "name": profile.option,
        "cores": figures["cores"],
        "card": figures["card"],
        "card_time": figures["card_time"],
        "times": [
            {name: time[name] for name in ("size", "seconds", "memory", "card_memory")}
            for time in figures["times"]
            if time["size"] <= max_size
        ],
    }


def runtime_plan(graph: GraphDescription, request: Mapping[str, Any], plan: Mapping[str, Any]) -> GraphPlan:
    """Return the plan as executors read it. One over several machines has the replicas of all of them: Ray
    takes it, the executor of one machine does not (`machines_of`)."""
    options = {(task["name"], o["name"]): o for task in request["tasks"] for o in task["options"]}
    tasks = {}
    for one in plan["tasks"]:
        option = options[one["task"], one["option"]]
        cards = [place["card"] for place in one["places"] for _ in range(place["count"]) if place["card"]]
        tasks[one["task"]] = TaskPlan(
            replicas=one["replicas"],
            max_size=one["batch"],
            wait_ms=min(LONGEST_WAIT_MS, round(1000 * one["wait"], 3)),
            threads=max(1, ceil(option["cores"] - 0.25)),
            device="cuda" if option["card"] else "cpu",
            gpus=tuple(int(card) for card in cards if card.isdecimal()),
        )
    items = max(LEAST_ITEMS, ceil(2 * plan["rate"] * plan["latency"]))
    return GraphPlan(tasks=tasks, entry=EntryLimits(items=items), graph=graph.name, digest=graph.digest)


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
