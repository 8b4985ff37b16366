"""Every write of task graphs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F
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
from graphs.items import located
from graphs.models import Graph, GraphVersion, TaskGraphPlan, TaskModel, TaskProfile
from graphs.orders import plan_request
from graphs.states import GraphPlanState, GraphState, PlanKind
from graphs.workers import ask
from models_registry.models import Version, VersionFile
from models_registry.selectors.versions import resolve
from models_registry.states import VersionState
from serving.fields import ProtocolError
from serving.graphs.description import GraphDescription

GIB = 2**30
MOST_PUSHES = 50
"""Kept of a graph."""


def create_graph(
    *, actor: Actor, team: Team, name: str, version: str, graph: Mapping[str, Any], description: str = ""
) -> Graph:
    """Make a graph of a version. Raises NotAllowed, Conflict, InvalidGraph, UnknownVersion."""
    row = Graph(team=team, name=name, description=description, next_at=clock.now())
    used = _describe(row, actor, version, graph)
    with transaction.atomic():
        team_rows.create(row, actor=actor, right=Right.GRAPHS_WRITE)
        _protect(row, used)
        _keep_push(row, actor)
        touch("changes", "graphs")
    return row


def change_graph(
    row: Graph, *, actor: Actor, version: str, graph: Mapping[str, Any], reason: str = ""
) -> Graph:
    """Give a graph another version; profiles of other models become stale. Raises as `create_graph`."""
    require(actor, Right.GRAPHS_WRITE, row.team)
    before, had = row.digest, row.version_id
    used = _describe(row, actor, version, graph)
    with transaction.atomic():
        row.save(update_fields=["version", "document", "digest", "origins"])
        _protect(row, used)
        if (before, had) != (row.digest, row.version_id):
            _keep_push(row, actor)
        detail = {"version": str(row.version), "before": before, "after": row.digest}
        audit.record(actor, "graph.push", subject=row, reason=reason, team_id=row.team_id, detail=detail)
        touch("changes", "graphs")
    return row


def change_adaptation(
    row: Graph, *, actor: Actor, expected: int | None = None, reason: str = "", **changes: Any
) -> Graph:
    """Change whether and when plans follow what workers measure. Raises NotAllowed, Stale."""
    require(actor, Right.GRAPHS_WRITE, row.team)
    with transaction.atomic():
        row.change(expected=expected, **changes)
        audit.record(
            actor, "graph.adapt", subject=row, reason=reason, team_id=row.team_id, detail=dict(changes)
        )
        kernel.wake(row)
        touch("changes", "graphs")
    return row


def _keep_push(row: Graph, actor: Actor) -> None:
    row.pushes.create(version=str(row.version), document=row.document, pushed_by=actor.name)
    row.pushes.filter(pk__in=[one.pk for one in row.pushes.all()[MOST_PUSHES:]]).delete()


def _describe(row: Graph, actor: Actor, version: str, document: Mapping[str, Any]) -> dict[str, Version]:
    """Give the row its version; return the versions that its tasks load. Raises InvalidGraph."""
    try:
        graph = GraphDescription.parse(document)
    except ProtocolError as error:
        raise InvalidGraph(fields={"graph": [str(error)]}) from None
    row.version = _ready(resolve(actor, version), "version")
    row.document, row.digest = graph.document(), graph.digest
    loading = [task for task in graph.tasks if task.model and task.kind != "service"]
    used = {task.name: _loaded(row, actor, task.model) for task in loading}
    row.origins = {task.name: used.get(task.name, row.version).digest for task in graph.tasks}
    return used


def _loaded(row: Graph, actor: Actor, model: str) -> Version:
    """Return a version that a task loads. Raises InvalidGraph, UnknownModel, UnknownVersion."""
    version = _ready(resolve(actor, model), "graph")
    if str(version) != model:
        said = _("%(model)s may become another version: name %(version)s, which stays.")
        raise InvalidGraph(fields={"graph": [said % {"model": model, "version": version}]})
    if row.version.model.team_id != row.team_id:
        said = _("Only a graph whose code belongs to its own team names models; %(version)s is of another.")
        raise InvalidGraph(fields={"graph": [said % {"version": row.version}]})
    return version


def _ready(version: Version, field: str) -> Version:
    if version.state != VersionState.READY:
        said = _("%(version)s is %(state)s: only a ready version can run.")
        told = {"version": version, "state": version.get_state_display().lower()}
        raise InvalidGraph(fields={field: [said % told]})
    return version


def _protect(row: Graph, used: Mapping[str, Version]) -> None:
    """Versions that tasks load cannot be removed while the graph has them."""
    row.versions.all().delete()
    GraphVersion.objects.bulk_create(
        GraphVersion(graph=row, task=task, version=version) for task, version in used.items()
    )
    for version in set(used.values()):
        TaskModel.objects.get_or_create(code=row.version, version=version)


def record_profile(
    row: Graph,
    *,
    actor: Actor,
    machine: Mapping[str, Any],
    tasks: Sequence[Mapping[str, Any]],
    digest: str,
    code: str,
    image: str = "",
    driver: str = "",
) -> list[TaskProfile]:
    """Keep what was measured of tasks, instead of what was known of them. Raises NotAllowed, InvalidGraph.

    `digest`: of the graph that was measured, `code`: of its file; others than those of the row's version are
    refused, so that no version is said to have times that it never showed.
    """
    require(actor, Right.GRAPHS_WRITE, row.team)
    if digest != row.digest:
        other = _("It was measured of another graph, %(measured)s; this one is %(digest)s. Push it first.")
        raise InvalidGraph(fields={"digest": [other % {"measured": digest, "digest": row.digest}]})
    sources = VersionFile.objects.filter(version=row.version_id, path__endswith=".py")
    if code not in (hashes := set(sources.values_list("sha256", flat=True))) and hashes:
        other = _("The file that was measured is none of %(version)s.")
        raise InvalidGraph(fields={"code": [other % {"version": row.version}]})
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


def order_profile(row: Graph, *, actor: Actor, reason: str = "") -> Graph:
    """Have a worker of the graph measure its tasks once it is idle. Raises NotAllowed, GraphPlanNotReady."""
    require(actor, Right.GRAPHS_WRITE, row.team)
    if row.profiling.get("state") in ("waiting", "running"):
        raise GraphPlanNotReady(_("A profile is under way already."))
    order = {"state": "waiting", "by": actor.name, "since": clock.now().isoformat(), "reason": ""}
    with transaction.atomic():
        Graph.objects.filter(pk=row.pk).update(profiling=order)
        row.profiling = order
        audit.record(actor, "graph.order_profile", subject=row, reason=reason, team_id=row.team_id)
        kernel.wake(row)
        touch("changes", "graphs")
    return row


def adapt_plan(
    row: Graph, *, actor: Actor, request: Mapping[str, Any], adaptation: Mapping[str, Any]
) -> TaskGraphPlan:
    """Have a plan computed from the times that workers measured. Raises NotAllowed."""
    require(actor, Right.GRAPHS_WRITE, row.team)
    with transaction.atomic():
        plan = TaskGraphPlan.objects.create(
            graph=row,
            kind=PlanKind.ADAPTED,
            digest=row.digest,
            request=dict(request),
            adaptation=dict(adaptation),
            created_by=actor.name,
            next_at=clock.now(),
        )
        audit.record(actor, "graph_plan.create", subject=plan, team_id=row.team_id)
        kernel.wake(plan)
        touch("changes", "graphs")
    return plan


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
    require(actor, Right.GRAPHS_WRITE, plan.graph.team)
    try:
        _start(plan, actor, reason)
    except IntegrityError:
        raise GraphPlanNotReady(_("Another plan was started at the same moment. Look again.")) from None
    plan.refresh_from_db()
    return plan


def _start(plan: TaskGraphPlan, actor: Actor, reason: str) -> None:
    with transaction.atomic():
        # One start at a time in a team, whose plans share its quota; by a write, as SQLite locks no rows.
        Graph.objects.filter(team=plan.graph.team_id).update(revision=F("revision"))
        graph = Graph.objects.select_related("team").get(pk=plan.graph_id)
        if graph.state == GraphState.PAUSED:
            raise GraphPlanNotReady(_("The graph is paused: its plan does not change. Resume it first."))
        if plan.digest != graph.digest:
            raise GraphPlanNotReady(_("The plan is for an earlier version of the graph: plan again."))
        _check_quota(graph, plan)
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
        kernel.wake(graph)
        touch("changes", "graphs")


def roll_back_plan(graph: Graph, *, actor: Actor, reason: str = "") -> TaskGraphPlan:
    """Start the plan that was active before the present one. Raises as `start_plan` does."""
    replaced = graph.plans.filter(state=GraphPlanState.REPLACED, digest=graph.digest)
    last = replaced.order_by("-started_at").select_related("graph__team").first()
    if last is None:
        raise GraphPlanNotReady(_("No other plan of this version of the graph was ever active."))
    return start_plan(last, actor=actor, reason=reason)


def retry_item(graph: Graph, item: str, *, actor: Actor, reason: str = "") -> str:
    """Run a failed item again at its worker; return the ID of the new one.

    Raises NotAllowed, NotOfWorker when its inputs are no longer kept, Unavailable.
    """
    require(actor, Right.GRAPHS_WRITE, graph.team)
    worker, number = located(graph, item)
    answered = ask(worker, "/items/retry", query={"item": number}, is_change=True)[1]
    again = f"{worker.name}:{json.loads(answered)['item']}"
    detail = {"item": item, "again": again}
    with transaction.atomic():
        audit.record(
            actor, "graph.retry_item", subject=graph, reason=reason, team_id=graph.team_id, detail=detail
        )
    touch("changes", "graphs")
    return again


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
