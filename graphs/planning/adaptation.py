"""Whether another plan is worth its start: what workers measured against what the plan was made from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphs.planning.assignment import Assignment, TaskChoice
from graphs.planning.documents import request_of

LEAST_CALLS = 20
"""Calls of a task in a window from which its times are believed."""
LEAST_ITEMS = 100
"""Items of the graph in a window from which calls per item are believed: those under way blur them."""
NARROWEST, WIDEST = 0.1, 10.0
"""Factors beyond these say that something else is wrong than the profile."""

Document = Mapping[str, Any]
Factors = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class MeasuredFactors:
    """Ratios of what workers measured to what the plan was made from, by task: times of batches, calls for an
    item of the graph, and memory, which is only ever more."""

    times: Factors
    visits: Factors = field(default_factory=dict)
    memory: Factors = field(default_factory=dict)

    def is_drifted(self, known: "MeasuredFactors", *, share: float) -> bool:
        """Whether one differs by more than `share` from those that were last planned with."""
        pairs = ((self.times, known.times), (self.visits, known.visits), (self.memory, known.memory))
        return any(
            abs(factor / before.get(task, 1.0) - 1) > share
            for now, before in pairs
            for task, factor in now.items()
        )


@dataclass(frozen=True, slots=True)
class PlanGain:
    """`before`: the rate of the active plan with the times that were measured, `after`: of the other one.
    `share`: of the items of the horizon that it brings beyond the cost of its start."""

    before: float
    after: float
    share: float
    is_worth: bool


def time_factors(
    request: Document, plan: Document, sizes: Mapping[str, Mapping[int, tuple[int, float]]]
) -> Factors:
    """Return by task how many times as long its batches took as the plan's option says, where enough ran.

    `sizes`: by task and size of the batch, calls and mean seconds.
    """
    options = {(task["name"], one["name"]): one for task in request["tasks"] for one in task["options"]}
    found = {}
    for planned in plan["tasks"]:
        seen = sizes.get(planned["task"], {})
        if sum(calls for calls, _ in seen.values()) < LEAST_CALLS:
            continue
        times = {one["size"]: one["seconds"] for one in options[planned["task"], planned["option"]]["times"]}
        expected = sum(calls * _between(times, size) for size, (calls, _) in seen.items())
        took = sum(calls * seconds for calls, seconds in seen.values())
        found[planned["task"]] = min(WIDEST, max(NARROWEST, took / expected))
    return found


def visit_factors(request: Document, items: Mapping[str, int], done: int) -> Factors:
    """Return by task how many times as often it was called for an item as the request says.

    `items`: calls by task, `done`: items of the graph, both of one window.
    """
    if done < LEAST_ITEMS:
        return {}
    return {
        task["name"]: min(WIDEST, max(NARROWEST, items[task["name"]] / done / task["visits"]))
        for task in request["tasks"]
        if items.get(task["name"])
    }


def memory_factors(request: Document, plan: Document, peaks: Mapping[str, int]) -> Factors:
    """Return by task how many times as much memory a process took as its option says, where it is more."""
    options = {(task["name"], one["name"]): one for task in request["tasks"] for one in task["options"]}
    found = {}
    for planned in plan["tasks"]:
        times = options[planned["task"], planned["option"]]["times"]
        expected = next(one["memory"] for one in times if one["size"] == planned["batch"])
        peak = peaks.get(planned["task"], 0)
        if expected and peak > expected:
            found[planned["task"]] = min(WIDEST, peak / expected)
    return found


def _between(times: Mapping[int, float], size: int) -> float:
    """Seconds of a batch whose size was not profiled: on the line between its neighbours."""
    low = max((one for one in times if one <= size), default=min(times))
    high = min((one for one in times if one >= size), default=max(times))
    if low == high:
        return times[low]
    return times[low] + (times[high] - times[low]) * (size - low) / (high - low)


def corrected(request: Document, plan: Document, now: MeasuredFactors) -> dict[str, Any]:
    """Return the request with calls per item, and with times and memory of the options that run, as workers
    measured them."""
    running = {one["task"]: one["option"] for one in plan["tasks"]}

    def option(task: str, one: Document) -> Document:
        if one["name"] != running.get(task):
            return one
        slower, larger = now.times.get(task, 1.0), now.memory.get(task, 1.0)
        times = [
            {**time, "seconds": time["seconds"] * slower, "memory": round(time["memory"] * larger)}
            for time in one["times"]
        ]
        return {**one, "times": times}

    tasks = [
        {
            **task,
            "visits": task["visits"] * now.visits.get(task["name"], 1.0),
            "options": [option(task["name"], one) for one in task["options"]],
        }
        for task in request["tasks"]
    ]
    return {**request, "tasks": tasks}


def rate_of(request: Document, plan: Document) -> float:
    """Return the rate that a plan reaches with the times of a request."""
    wanted = request_of(request)
    choices, counts, shares = {}, {}, {}
    for one in plan["tasks"]:
        task = next(each for each in wanted.tasks if each.name == one["task"])
        option = next(each for each in task.options if each.name == one["option"])
        batch = next(each for each in option.times if each.size == one["batch"])
        choices[task.name] = TaskChoice(task, option, batch)
        counts[task.name] = {(place["machine"], place["card"]): place["count"] for place in one["places"]}
        shares[task.name] = {key: count / one["replicas"] for key, count in counts[task.name].items()}
    return Assignment(wanted, choices, counts, shares).most


def gain_of(
    before: float, after: float, *, switch_seconds: float, horizon_seconds: float, share: float
) -> PlanGain:
    """Judge another plan by the items of the horizon. Its start costs the present rate `switch_seconds`."""
    if before <= 0:
        return PlanGain(before, after, 1.0, after > 0)
    items = before * horizon_seconds
    gained = (after - before) * max(0.0, horizon_seconds - switch_seconds) - before * switch_seconds
    return PlanGain(before, after, gained / items, gained / items > share)
