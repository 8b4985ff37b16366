"""Requests and results of the planner as JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from math import inf
from typing import Any

from graphs.planning.explain import explain
from graphs.planning.model import (
    BatchTime,
    CardSlot,
    PlanMachine,
    PlanObjective,
    PlanRequest,
    TaskNeed,
    TaskOption,
)
from graphs.planning.planner import NoPlan, make_plan


def request_of(document: Mapping[str, Any]) -> PlanRequest:
    """Read a request. Raises GraphPlanningError for one that makes no sense."""
    return PlanRequest(
        tasks=tuple(_task(one) for one in document["tasks"]),
        edges=tuple((source, target) for source, target in document["edges"]),
        machines=tuple(_machine(one) for one in document["machines"]),
        objective=PlanObjective(document["objective"]),
        rate=document.get("rate") or 0.0,
        latency_limit=document.get("latency_seconds") or inf,
    )


def _task(one: Mapping[str, Any]) -> TaskNeed:
    options = tuple(
        TaskOption(
            option["name"],
            tuple(BatchTime(**time) for time in option["times"]),
            option["cores"],
            option["card"],
            option["card_time"],
        )
        for option in one["options"]
    )
    wait = one.get("max_wait")
    return TaskNeed(one["name"], options, one["visits"], one["item_bytes"], inf if wait is None else wait)


def _machine(one: Mapping[str, Any]) -> PlanMachine:
    cards = tuple(CardSlot(card["name"], card["kind"], card["memory"]) for card in one.get("cards", ()))
    return PlanMachine(one["name"], one["cores"], one["memory"], cards, one.get("bandwidth") or inf)


def answer(document: Mapping[str, Any]) -> dict[str, Any]:
    """Plan and explain; what is short where there is no plan."""
    request = request_of(document)
    try:
        plan = make_plan(request)
    except NoPlan as none:
        return {"shortages": [{**asdict(one), "missing": one.missing} for one in none.shortages]}
    tasks = [{**asdict(task), "replicas": task.replicas} for task in plan.tasks]
    return {"plan": {**asdict(plan), "tasks": tasks}, "explanation": asdict(explain(request, plan))}
