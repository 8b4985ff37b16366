"""Whether another plan is worth its start: what workers measured against what the plan was made from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphs.planning.assignment import Assignment, TaskChoice
from graphs.planning.documents import request_of

LEAST_CALLS = 20
"""Calls of a task in a window from which its times are believed."""
NARROWEST, WIDEST = 0.1, 10.0
"""Factors beyond these say that something else is wrong than the profile."""

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PlanGain:
    """`before`: the rate of the active plan with the times that were measured, `after`: of the other one.
    `share`: of the items of the horizon that it brings beyond the cost of its start."""

    before: float
    after: float
    share: float
    is_worth: bool


def factors(
    request: Document, plan: Document, sizes: Mapping[str, Mapping[int, tuple[int, float]]]
) -> dict[str, float]:
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


def _between(times: Mapping[int, float], size: int) -> float:
    """Seconds of a batch whose size was not profiled: on the line between its neighbours."""
    low = max((one for one in times if one <= size), default=min(times))
    high = min((one for one in times if one >= size), default=max(times))
    if low == high:
        return times[low]
    return times[low] + (times[high] - times[low]) * (size - low) / (high - low)


def corrected(request: Document, plan: Document, factors: Mapping[str, float]) -> dict[str, Any]:
    """Return the request with the times of the options that run, as workers measured them."""
    running = {one["task"]: one["option"] for one in plan["tasks"]}

    def option(task: str, one: Document) -> Document:
        factor = factors.get(task, 1.0) if one["name"] == running.get(task) else 1.0
        times = [{**time, "seconds": time["seconds"] * factor} for time in one["times"]]
        return {**one, "times": times}

    tasks = [
        {**task, "options": [option(task["name"], one) for one in task["options"]]}
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


def is_drifted(now: Mapping[str, float], known: Mapping[str, float], *, share: float) -> bool:
    """Whether a task's times differ by more than `share` from those that were last planned with."""
    return any(abs(factor / known.get(task, 1.0) - 1) > share for task, factor in now.items())


def gain_of(
    before: float, after: float, *, switch_seconds: float, horizon_seconds: float, share: float
) -> PlanGain:
    """Judge another plan by the items of the horizon. Its start costs the present rate `switch_seconds`."""
    if before <= 0:
        return PlanGain(before, after, 1.0, after > 0)
    items = before * horizon_seconds
    gained = (after - before) * max(0.0, horizon_seconds - switch_seconds) - before * switch_seconds
    return PlanGain(before, after, gained / items, gained / items > share)
