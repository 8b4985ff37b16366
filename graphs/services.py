"""Every write of task graphs."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from accounts import team_rows
from accounts.models import Team
from accounts.services.rights import require
from accounts.states import Right
from common import audit, clock, events
from common.actor import Actor
from common.live.touch import touch
from common.reconcile import kernel
from graphs.errors import GraphPlanNotReady, GraphQuotaExceeded, InvalidGraph
from graphs.events import GraphPlanMoved
from graphs.models import Graph, TaskGraphPlan, TaskProfile
from graphs.orders import plan_request
from graphs.states import GraphPlanState, GraphState
from models_registry.selectors.versions import resolve
from serving.fields import ProtocolError
from serving.graphs.description import GraphDescription

GIB = 2**30


def create_graph(
    *, actor: Actor, team: Team, name: str, version: str, graph: Mapping[str, Any], description: str = ""
) -> Graph:
    """Make a graph of a version. Raises NotAllowed, Conflict, InvalidGraph, UnknownVersion."""
    row = Graph(team=team, name=name, description=description)
    _describe(row, actor, version, graph)
    team_rows.create(row, actor=actor, right=Right.GRAPHS_WRITE)
    touch("changes", "graphs")
    return row


def change_graph(
    row: Graph, *, actor: Actor, version: str, graph: Mapping[str, Any], reason: str = ""
) -> Graph:
    """Give a graph another version; profiles of other models become stale. Raises as `create_graph`."""
    require(actor, Right.GRAPHS_WRITE, row.team)
    before = row.digest
    _describe(row, actor, version, graph)
    with transaction.atomic():
        row.save(update_fields=["version", "document", "digest", "origins"])
        detail = {"version": str(row.version), "before": before, "after": row.digest}
        audit.record(actor, "graph.push", subject=row, reason=reason, team_id=row.team_id, detail=detail)
        touch("changes", "graphs")
    return row


def _describe(row: Graph, actor: Actor, version: str, document: Mapping[str, Any]) -> None:
    try:
        graph = GraphDescription.parse(document)
    except ProtocolError as error:
        raise InvalidGraph(fields={"graph": [str(error)]}) from None
    row.version = resolve(actor, version)
    row.document, row.digest = graph.document(), graph.digest
    own = row.version.digest or str(row.version)
    row.origins = {
        task.name: (resolve(actor, task.model).digest or task.model) if ":" in task.model else own
        for task in graph.tasks
    }


def record_profile(
    row: Graph,
    *,
    actor: Actor,
    machine: Mapping[str, Any],
    tasks: Sequence[Mapping[str, Any]],
    image: str = "",
    driver: str = "",
) -> list[TaskProfile]:
    """Keep what was measured of tasks, instead of what was known of them. Raises NotAllowed, InvalidGraph."""
    require(actor, Right.GRAPHS_WRITE, row.team)
    known = row.origins.keys()
    if unknown := sorted({one["task"] for one in tasks} - known):
        none = _("The graph has no task %(tasks)s.")
        raise InvalidGraph(fields={"tasks": [none % {"tasks": ", ".join(unknown)}]})
    if not tasks:
        raise InvalidGraph(fields={"tasks": [_("No task was measured.")]})
    kept = []
    with transaction.atomic():
        for one in tasks:
            figures = {name: value for name, value in one.items() if name not in ("task", "option")}
            columns = {
                "origin": row.origins[one["task"]],
                "image": image,
                "driver": driver,
                "figures": figures,
                "machine": dict(machine),
                "measured_at": clock.now(),
                "created_by": actor.name,
            }
            profile, _made = TaskProfile.objects.update_or_create(
                graph=row, task=one["task"], option=one["option"], defaults=columns
            )
            kept.append(profile)
        audit.record(actor, "graph.profile", subject=row, team_id=row.team_id, detail={"tasks": len(kept)})
        touch("changes", "graphs")
    return kept


def order_plan(row: Graph, *, actor: Actor, **wish: Any) -> TaskGraphPlan:
    """Have a plan computed. Raises NotAllowed, InvalidGraph."""
    require(actor, Right.GRAPHS_WRITE, row.team)
    request = plan_request(row, **wish)
    with transaction.atomic():
        plan = TaskGraphPlan.objects.create(
            graph=row, digest=row.digest, request=request, created_by=actor.name, next_at=clock.now()
        )
        audit.record(actor, "graph_plan.create", subject=plan, team_id=row.team_id)
        kernel.wake(plan)
        touch("changes", "graphs")
    return plan


def start_plan(plan: TaskGraphPlan, *, actor: Actor, reason: str = "") -> TaskGraphPlan:
    """Make a plan the graph's active one. Raises NotAllowed, GraphPlanNotReady, GraphQuotaExceeded."""
    graph = plan.graph
    require(actor, Right.GRAPHS_WRITE, graph.team)
    if graph.state == GraphState.PAUSED:
        raise GraphPlanNotReady(_("The graph is paused: its plan does not change. Resume it first."))
    if plan.digest != graph.digest:
        raise GraphPlanNotReady(_("The plan is for an earlier version of the graph: plan again."))
    _check_quota(graph, plan)
    with transaction.atomic():
        now, S = clock.now(), GraphPlanState
        for other in graph.plans.filter(state=S.ACTIVE).exclude(pk=plan.pk):
            kernel.interrupt(other, to=S.REPLACED, state_since=now)
            events.publish(GraphPlanMoved(other.pk, graph.pk))
        can_start = plan.state in (S.PROPOSED, S.REPLACED) and kernel.interrupt(
            plan, to=S.ACTIVE, where={"state": plan.state}, state_since=now, started_at=now
        )
        if not can_start:
            plan.refresh_from_db()
            raise GraphPlanNotReady(
                _("The plan is %(state)s; only a proposed or a replaced one can be started.")
                % {"state": plan.get_state_display().lower()}
            )
        audit.record(actor, "graph_plan.start", subject=plan, reason=reason, team_id=graph.team_id)
        events.publish(GraphPlanMoved(plan.pk, graph.pk))
        touch("changes", "graphs")
    plan.refresh_from_db()
    return plan


def roll_back_plan(graph: Graph, *, actor: Actor, reason: str = "") -> TaskGraphPlan:
    """Start the plan that was active before the present one. Raises as `start_plan` does."""
    replaced = graph.plans.filter(state=GraphPlanState.REPLACED, digest=graph.digest)
    last = replaced.order_by("-started_at").select_related("graph__team").first()
    if last is None:
        raise GraphPlanNotReady(_("No other plan of this version of the graph was ever active."))
    return start_plan(last, actor=actor, reason=reason)


def pause_graph(row: Graph, *, actor: Actor, reason: str = "") -> Graph:
    """Freeze the plan: none is started until the graph is resumed. Raises NotAllowed, Conflict."""
    return _switch(row, actor, "pause", GraphState.RUNNING, GraphState.PAUSED, reason)


def resume_graph(row: Graph, *, actor: Actor, reason: str = "") -> Graph:
    """Raises NotAllowed, Conflict when it is not paused."""
    return _switch(row, actor, "resume", GraphState.PAUSED, GraphState.RUNNING, reason)


def _switch(row: Graph, actor: Actor, verb: str, since: str, to: str, reason: str) -> Graph:
    with transaction.atomic():
        team_rows.move(
            row, actor=actor, right=Right.GRAPHS_WRITE, verb=verb, since=since, to=to, reason=reason
        )
        touch("changes", "graphs")
    return row


def _check_quota(graph: Graph, plan: TaskGraphPlan) -> None:
    limits = {
        "cores": (settings.SLIPWAY_GRAPH_CORES, 1),
        "memory": (settings.SLIPWAY_GRAPH_MEMORY_GIB, GIB),
    }
    active = TaskGraphPlan.objects.filter(graph__team=graph.team, state=GraphPlanState.ACTIVE)
    plans = [*active.exclude(graph=graph), plan]
    for resource, (limit, unit) in limits.items():
        used = sum(
            load["used"]
            for one in plans
            for load in one.result.get("plan", {}).get("loads", ())
            if load["resource"] == resource
        )
        if limit and used > limit * unit:
            sentence = (
                _("Graphs of team %(team)s may use %(limit)s cores; with this plan they use %(used)s.")
                if resource == "cores"
                else _("Graphs of team %(team)s may hold %(limit)s GiB; with this plan they hold %(used)s.")
            )
            told = {"team": graph.team, "limit": f"{limit:g}", "used": f"{used / unit:.1f}"}
            raise GraphQuotaExceeded(sentence % told)
