"""Requests to the planner out of a graph and its tasks' figures, and plans as executors take them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any

from serving.graphs.description import LONGEST_WAIT_MS, GraphDescription
from serving.graphs.plan import EntryLimits, GraphPlan, TaskPlan

LEAST_ITEMS = 16
Figures = Mapping[str, Any]


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


def request_document(
    graph: GraphDescription,
    profiles: Sequence[Figures],
    *,
    machines: Sequence[Mapping[str, Any]],
    objective: str,
    rate: float | None = None,
    latency_seconds: float | None = None,
) -> dict[str, Any]:
    """Return the input of the planner. `profiles`: figures by task and option, as a profile reports them."""
    by_task = {task.name: [one for one in profiles if one["task"] == task.name] for task in graph.tasks}
    return {
        "objective": objective,
        "rate": rate,
        "latency_seconds": latency_seconds,
        "machines": [dict(one) for one in machines],
        "edges": task_edges(graph),
        "tasks": [
            {
                "name": task.name,
                "max_wait": task.max_wait_ms / 1_000,
                "visits": _mean(one["visits"] for one in by_task[task.name]),
                "item_bytes": _mean(one["bytes_in"] + one["bytes_out"] for one in by_task[task.name]),
                "options": [
                    _option(one, task.max_size) for one in by_task[task.name] if _suits(one, task.device)
                ],
            }
            for task in graph.tasks
        ],
    }


def _suits(figures: Figures, device: str) -> bool:
    return device == "any" or (device == "cuda") == bool(figures["card"])


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def _option(figures: Figures, max_size: int) -> dict[str, Any]:
    """Return what the planner reads of an option; its times are those beside the other tasks."""
    slower = figures.get("interference", 1.0)
    return {
        "name": figures["option"],
        "cores": figures["cores"],
        "card": figures["card"],
        "card_time": figures["card_time"],
        "times": [
            {
                **{name: time[name] for name in ("size", "memory", "card_memory")},
                "seconds": time["seconds"] * slower,
            }
            for time in figures["times"]
            if time["size"] <= max_size
        ],
    }


def runtime_plan(graph: GraphDescription, request: Mapping[str, Any], plan: Mapping[str, Any]) -> GraphPlan:
    """Return the plan as executors read it. One over several machines has the replicas of all of them: Ray
    takes it, the executor of one machine does not ."""
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
