"""A plan is computed by a job."""

import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from json import dumps
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from accounts.states import Right
from common import audit, events
from common.actor import Actor
from common.jobs.rows import NO_JOB
from common.jobs.spec import JobLimits, JobObservation, JobSpec
from common.jobs.steps import AwaitJob, JobReconciler, StartJob, owner
from common.live.touch import touch
from common.reconcile import Step, StepOutcome, move
from graphs.events import GraphPlanMoved
from graphs.models import TaskGraphPlan
from graphs.orders import description_of, runtime_plan
from graphs.states import PLAN_MOVES, GraphPlanState

ACTOR = Actor.system("graphs")
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
