"""Workers follow the active plan, and plans follow what workers measure."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from math import inf
from typing import Any

from django.conf import settings

from common.actor import Actor
from common.errors import SlipwayError, Unavailable
from graphs import services
from graphs.digests import digest_of
from graphs.errors import NotOfWorker
from graphs.looks import batch_times, calls_of, peaks_of, since
from graphs.models import Graph, TaskGraphPlan
from graphs.orders import description_of, machines_of, worker_plan
from graphs.planning.adaptation import (
    MeasuredFactors,
    corrected,
    gain_of,
    memory_factors,
    rate_of,
    time_factors,
    visit_factors,
)
from graphs.selectors import active_plan, adapted_today
from graphs.states import AdaptMode, GraphPlanState, GraphState, PlanKind
from graphs.workers import GraphWorker, ask, workers_of

ACTOR = Actor.system("graphs")


def wanted_plans(graph: Graph, workers: Sequence[GraphWorker]) -> dict[GraphWorker, dict[str, Any]]:
    """Return the plan that each worker should run: those of a machine share its plan. Empty: there is none,
    or it is for several machines."""
    plan = active_plan(graph)
    if plan is None or plan.digest != graph.digest or len(machines_of(plan.result["plan"])) > 1:
        return {}
    waiting = 0
    if pending := settings.SLIPWAY_GRAPH_PENDING_ITEMS:
        of_team = sum(len(workers_of(one)) for one in Graph.objects.filter(team=graph.team_id))
        waiting = max(1, pending // max(1, of_team))
    description = description_of(graph)
    machines: dict[str, list[GraphWorker]] = {}
    for worker in workers:
        machines.setdefault(worker.machine, []).append(worker)
    return {
        worker: worker_plan(plan.runtime, description, number=number, of=len(several), waiting=waiting)
        for several in machines.values()
        for number, worker in enumerate(several)
    }


def give_plan(graph: Graph, check: Callable[[], None]) -> None:
    """Send the active plan to workers that ran another one when they were last asked. `check` raises when
    somebody else has the graph by now."""
    known = {one["name"]: one for one in graph.look.get("workers", ())}
    behind: dict[GraphWorker, dict[str, Any]] = {}
    workers = [one for one in workers_of(graph) if known.get(one.name, {}).get("is_current")]
    for worker, wanted in wanted_plans(graph, workers).items() if workers else ():
        one = known[worker.name]
        if one["plan"] != digest_of(wanted) and not one["is_switching"]:
            behind[worker] = wanted
    if behind:
        check()
    for worker, wanted in behind.items():
        try:
            ask(worker, "/plan", query={"waits": "0"}, body=wanted, is_change=True)
        except (Unavailable, NotOfWorker):
            continue


def adaptation_of(graph: Graph, totals: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the order of another plan where a minute's times, calls or memory differ from the active one's.
    `totals`: counters by worker at its end."""
    active = active_plan(graph)
    if graph.adapt == AdaptMode.OFF or graph.state == GraphState.PAUSED or active is None:
        return None
    if active.digest != graph.digest or graph.plans.filter(state=GraphPlanState.PLANNING).exists():
        return None
    begun = graph.window["begun"]
    windows = [since(now, begun[name]) for name, now in totals.items() if name in begun]
    plan = active.result["plan"]
    now = MeasuredFactors(
        times=time_factors(active.request, plan, batch_times(windows)),
        visits=visit_factors(active.request, calls_of(windows), sum(one["done"] for one in windows)),
        memory=memory_factors(active.request, plan, peaks_of(windows)),
    )
    last = graph.plans.filter(kind=PlanKind.ADAPTED, adaptation__of=active.pk).first()
    if not now.is_drifted(_known(last), share=graph.gain_percent / 100):
        return None
    request = corrected(active.request, plan, now)
    before = min(rate_of(request, plan), request["rate"] or inf)
    measured = {"factors": now.times, "visits": now.visits, "memory": now.memory}
    return {"request": request, "adaptation": {"of": active.pk, **measured, "before": before}}


def _known(last: TaskGraphPlan | None) -> MeasuredFactors:
    """Return what the last adapted plan was made from."""
    known = last.adaptation if last is not None else {}
    return MeasuredFactors(
        times=known.get("factors", {}), visits=known.get("visits", {}), memory=known.get("memory", {})
    )


def judged(plan: TaskGraphPlan, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the gain of an adapted plan over the active one, its start's cost taken off."""
    graph = plan.graph
    active = TaskGraphPlan.objects.filter(pk=plan.adaptation["of"]).first()
    before = active.result["plan"]["tasks"] if active is not None else []
    was = {one["task"]: (one["option"], one["replicas"], one["batch"]) for one in before}
    loads: dict[tuple[str, str], float] = {
        (one.task, one.option): one.figures["load_seconds"] for one in graph.profiles.all()
    }
    changed = [
        one
        for one in result["tasks"]
        if was.get(one["task"]) != (one["option"], one["replicas"], one["batch"])
    ]
    cores = sum(machine["cores"] for machine in plan.request["machines"])
    loading = sum(loads.get((one["task"], one["option"]), 0.0) * one["replicas"] for one in changed)
    gain = gain_of(
        plan.adaptation["before"],
        result["rate"],
        switch_seconds=loading / max(cores, 1.0),
        horizon_seconds=graph.horizon_seconds,
        share=graph.gain_percent / 100,
    )
    return {**plan.adaptation, "after": gain.after, "share": gain.share, "is_worth": gain.is_worth}


def start_adapted(graph: Graph, now: datetime) -> None:
    """Start the newest adapted plan of a graph that adapts by itself, within its budget and dwell."""
    if graph.adapt != AdaptMode.AUTOMATIC or graph.state == GraphState.PAUSED:
        return
    plan = graph.plans.select_related("graph__team").first()
    if plan is None or plan.kind != PlanKind.ADAPTED or plan.state != GraphPlanState.PROPOSED:
        return
    active = active_plan(graph)
    if active is None or active.pk != plan.adaptation["of"] or active.started_at is None:
        return
    rests = now - active.started_at < timedelta(seconds=graph.dwell_seconds)
    if rests or adapted_today(graph, now) >= graph.starts_per_day:
        return
    try:
        services.start_plan(plan, actor=ACTOR, reason=_reason(plan))
    except SlipwayError:
        # Its quota, or somebody else's start: the next look tries again.
        return


def _reason(plan: TaskGraphPlan) -> str:
    return f"{plan.adaptation['share']:+.0%}"
