"""A plan is computed by a job; a graph follows its workers."""

import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from json import dumps
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from accounts.states import Right
from common import audit, events
from common.jobs.rows import NO_JOB
from common.jobs.spec import JobLimits, JobObservation, JobSpec
from common.jobs.steps import AwaitJob, JobReconciler, StartJob, check_fence, owner
from common.live.touch import touch
from common.reconcile import Effect, Operation, Recurring, Step, StepOutcome, move, wait
from graphs import services
from graphs.events import GraphPlanMoved
from graphs.following import ACTOR, adaptation_of, give_plan, judged, start_adapted
from graphs.looks import look_of, totals_of
from graphs.models import Graph, TaskGraphPlan
from graphs.orders import description_of
from graphs.planning.requests import runtime_plan
from graphs.profile_orders import advance_profile
from graphs.states import PLAN_MOVES, GraphPlanState, PlanKind
from graphs.workers import GraphWorker, ask_all, workers_of

WINDOW = timedelta(seconds=60)
WITHOUT_WORKERS = timedelta(seconds=30)
Seen = dict[GraphWorker, dict[str, Any] | None]
LIMITS = JobLimits(wall_seconds=600, network=False, nice=5)


class StartPlanning(StartJob[TaskGraphPlan]):
    def spec(self, row: TaskGraphPlan, op_key: str) -> JobSpec:
        return JobSpec(
            op_key=op_key,
            owner=owner(row),
            argv=(sys.executable, "-m", "graphs.planning"),
            stdin=dumps(row.request).encode(),
            limits=LIMITS,
        )


class AwaitPlanning(AwaitJob[TaskGraphPlan]):
    look_every = timedelta(seconds=0.5)
    max_launches = 3

    def succeeded(self, row: TaskGraphPlan, seen: JobObservation, now: datetime) -> StepOutcome:
        result = dict(seen.result or {})
        save: dict[str, Any] = {"result": result, "state_since": now, **NO_JOB}
        if "plan" not in result:
            return move(GraphPlanState.IMPOSSIBLE, save=save, after=None)
        graph = description_of(row.graph)
        if graph.digest == row.digest:
            save["runtime"] = runtime_plan(graph, row.request, result["plan"]).document()
            if row.kind == PlanKind.ADAPTED:
                save["adaptation"] = gain = judged(row, result["plan"])
                if not gain["is_worth"]:
                    save["reason"] = _("It brings too little beyond the cost of its start.")
                    return move(GraphPlanState.DISMISSED, save=save, after=None)
            return move(GraphPlanState.PROPOSED, save=save, after=None)
        return _failed(_("The graph was pushed anew while it was planned: plan again."), now)

    def failed(self, row: TaskGraphPlan, seen: JobObservation, now: datetime) -> StepOutcome:
        return _failed(self.why_given_up(row, seen, _("The planner")), now)


def _failed(reason: str, now: datetime) -> StepOutcome:
    save: Mapping[str, Any] = {"reason": reason, "state_since": now, **NO_JOB}
    return move(GraphPlanState.FAILED, save=save, after=None)


class GraphPlanReconciler(JobReconciler[TaskGraphPlan]):
    model = TaskGraphPlan
    moves = PLAN_MOVES
    right = Right.GRAPHS_WRITE

    def rows(self) -> QuerySet[TaskGraphPlan]:
        return TaskGraphPlan.objects.select_related("graph__team")

    def next_step(self, row: TaskGraphPlan, now: datetime) -> Step[TaskGraphPlan] | None:
        if row.state != GraphPlanState.PLANNING:
            return None
        return AwaitPlanning(self.runner) if row.job else StartPlanning(self.runner)

    def on_move(self, row: TaskGraphPlan, to: str, note: Any) -> None:
        detail = {"from": row.state, "to": to}
        audit.record(ACTOR, "graph_plan.move", subject=row, team_id=row.graph.team_id, detail=detail)
        events.publish(GraphPlanMoved(row.pk, row.graph_id))
        touch("changes", "graphs")


class GraphReconciler(Recurring[Graph]):
    """Asks the graph's workers every ten seconds, gives them the active plan, and once a minute compares the
    times that they measured with those of the plan."""

    model = Graph
    name = "workers"
    effect = Effect.ABSOLUTE
    every = timedelta(seconds=10)
    right = Right.GRAPHS_WRITE

    def rows(self) -> QuerySet[Graph]:
        return Graph.objects.select_related("team", "version__model")

    def lane_of(self, row: Graph) -> str:
        return f"graph:{row.pk}"

    def act(self, row: Graph, operation: Operation) -> None:
        start_adapted(row, operation.at)
        give_plan(row, lambda: check_fence(row, operation))
        advance_profile(row, lambda: check_fence(row, operation))

    def observe(self, row: Graph, operation: Operation) -> Seen:
        return ask_all(workers_of(row), "/counters")

    def settle(self, row: Graph, seen: Seen, now: datetime) -> StepOutcome:
        if not seen and not row.look.get("workers"):
            return wait(WITHOUT_WORKERS)
        window, totals = row.window, totals_of(seen, row.digest)
        look = look_of(seen, window.get("last", {}), digest=row.digest, at=now)
        order: dict[str, Any] | None = None
        is_new = window.get("digest") != row.digest
        if not is_new and now - datetime.fromisoformat(window["at"]) >= WINDOW:
            order, is_new = adaptation_of(row, totals), True
        if is_new:
            window = {"at": now.isoformat(), "digest": row.digest, "begun": totals}
        save = {"look": look, "window": {**window, "last": totals}, "observed_at": now}
        return wait(self.every, save=save, write=lambda: _follow(row, order))


def _follow(row: Graph, order: Mapping[str, Any] | None) -> None:
    touch("changes", "graphs")
    if order is not None:
        services.adapt_plan(row, actor=ACTOR, **order)
