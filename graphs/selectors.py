"""Named reads of task graphs."""

from datetime import datetime, timedelta

from django.db.models import F, OuterRef, QuerySet, Subquery
from django.http import Http404

from accounts.states import Right
from common.actor import Actor
from graphs.models import Graph, TaskGraphPlan
from graphs.states import AdaptMode, GraphPlanState, GraphState, PlanKind


def graphs(actor: Actor) -> QuerySet[Graph]:
    """Graphs of teams that the actor may read."""
    return Graph.objects.for_actor(actor, Right.READ).select_related("team", "version__model")


def graph_of(actor: Actor, pk: int) -> Graph:
    """Raises Http404 where there is none that the actor may see."""
    row = graphs(actor).filter(pk=pk).first()
    if row is None:
        raise Http404
    return row


def active_plan(graph: Graph) -> TaskGraphPlan | None:
    return graph.plans.filter(state=GraphPlanState.ACTIVE).first()


def adapted_today(graph: Graph, now: datetime) -> int:
    """Return how many adapted plans were started within 24 hours."""
    return graph.plans.filter(kind=PlanKind.ADAPTED, started_at__gte=now - timedelta(days=1)).count()


def plans_to_start(actor: Actor) -> QuerySet[TaskGraphPlan]:
    """The newest plan of each graph where it is proposed, for those who may start it; where plans are only
    advised, adapted ones are no one's task."""
    newest = TaskGraphPlan.objects.filter(graph=OuterRef("graph")).order_by("-pk").values("pk")[:1]
    rows = TaskGraphPlan.objects.for_actor(actor, Right.GRAPHS_WRITE).select_related("graph")
    return rows.exclude(kind=PlanKind.ADAPTED, graph__adapt=AdaptMode.ADVISE).filter(
        pk=Subquery(newest),
        state=GraphPlanState.PROPOSED,
        digest=F("graph__digest"),
        graph__state=GraphState.RUNNING,
    )
