"""What task graphs add to the whole."""

from collections.abc import Iterator

from django.utils.translation import gettext, gettext_noop, ngettext
from django.utils.translation import gettext_lazy as _

from accounts.actors import of_user
from accounts.models import User
from clusters.gpu_needs import register_need_source
from common.actor import Actor
from common.choices import ChoiceSet
from common.declared import AppManifest
from common.pages import formats
from common.pages.badges import Badge
from common.pages.inbox import InboxEntry, InboxSource
from common.pages.search import Person, SearchDestination, SearchHit, SearchSource
from common.pages.shell import NavItem
from common.pages.subjects import Subject
from common.webhooks.catalogue import EventPayload, Ids, WebhookEventType
from common.words import mentioning
from graphs import selectors
from graphs.events import GraphPlanMoved
from graphs.gpu_needs import of_profiles
from graphs.models import Graph, GraphVersion, TaskGraphPlan, TaskModel
from graphs.reconcilers import GraphPlanReconciler, GraphReconciler
from graphs.states import AdaptMode, GraphItemState, GraphPlanState, GraphState, PlanKind
from graphs.task_models import TASK_MODELS
from models_registry.companions import register_companions
from models_registry.references import VersionReferences, register_uses
from models_registry.states import VersionState

ICON = "sitemap"
PLAN = "graphs.taskgraphplan"
AT_MOST = 20
VERSIONS_OF_GRAPHS = VersionReferences(
    Graph.objects.all(), "version", "version__model", gettext_noop("task graph {}"), ("name",)
)
VERSIONS_OF_TASKS = VersionReferences(
    GraphVersion.objects.all(),
    "version",
    "version__model",
    gettext_noop("task graph {} (task {})"),
    ("graph__name", "task"),
)
MODELS_OF_CODE = VersionReferences(
    TaskModel.objects.exclude(code__state=VersionState.DELETED),
    "version",
    "version__model",
    gettext_noop("tasks of {}:{}"),
    ("code__model__name", "code__name"),
)


def plans_to_start(actor: Actor) -> Iterator[InboxEntry]:
    for plan in selectors.plans_to_start(actor)[:AT_MOST]:
        rate = formats.three_digits(plan.result["plan"]["rate"])
        yield InboxEntry(
            badge=("graph_plan", plan.state),
            title=str(plan),
            url=f"/graphs/{plan.graph_id}/plans/{plan.pk}/",
            since=plan.state_since,
            why=gettext("%(rate)s items/s") % {"rate": rate},
        )


def find_graphs(person: Person, text: str, limit: int) -> Iterator[SearchHit]:
    if isinstance(person, User):
        rows = mentioning(selectors.graphs(of_user(person)), text, ("name", "description"))
        for row in rows[:limit]:
            yield SearchHit(row.name, f"/graphs/{row.pk}/", ICON, row.team.name)


def plan_payload(ids: Ids) -> EventPayload | None:
    plan = TaskGraphPlan.objects.select_related("graph").filter(pk=ids["plan_id"]).first()
    if plan is None:
        return None
    document = {"id": plan.pk, "graph": plan.graph.name, "state": plan.state, "reason": plan.reason}
    return EventPayload(plan.graph.team_id, {**ids, "plan": document})


MANIFEST = AppManifest(
    reconcilers=(GraphPlanReconciler(), GraphReconciler()),
    subjects=(
        Subject("graphs.graph", _("Task graph"), "/graphs/{pk}/", badges="graph"),
        Subject(PLAN, _("Graph plan"), "/graphs/{graph_id}/plans/{pk}/", badges="graph_plan"),
    ),
    choices=(
        ChoiceSet(GraphState, badges="graph", schema="GraphState"),
        ChoiceSet(GraphPlanState, badges="graph_plan", schema="GraphPlanState"),
        ChoiceSet(GraphItemState, badges="graph_item", schema="GraphItemState"),
        ChoiceSet(AdaptMode, schema="GraphAdaptMode"),
        ChoiceSet(PlanKind, schema="GraphPlanKind"),
    ),
    badges={
        "graph": {
            "running": Badge(_("Running"), "good", "player-play"),
            "paused": Badge(_("Paused"), "warn", "player-pause"),
        },
        "graph_plan": {
            "planning": Badge(_("Planning"), "busy", "loader-2"),
            "proposed": Badge(_("Proposed"), "ask", "help-circle"),
            "impossible": Badge(_("Impossible"), "warn", "ban"),
            "failed": Badge(_("Failed"), "bad", "alert-octagon"),
            "active": Badge(_("Active"), "good", "circle-check"),
            "replaced": Badge(_("Replaced"), "idle", "arrow-forward-up"),
            "dismissed": Badge(_("Dismissed"), "idle", "circle-minus"),
        },
        "graph_item": {
            "waiting": Badge(_("Waiting"), "idle", "hourglass"),
            "running": Badge(_("Running"), "busy", "loader-2"),
            "done": Badge(_("Done"), "good", "circle-check"),
            "failed": Badge(_("Failed"), "bad", "alert-octagon"),
            "cancelled": Badge(_("Cancelled"), "idle", "circle-minus"),
        },
        "ray_run": {
            "queued": Badge(_("Queued"), "idle", "hourglass"),
            "starting": Badge(_("Starting"), "busy", "loader-2"),
            "running": Badge(_("Running"), "good", "player-play"),
            "done": Badge(_("Done"), "good", "circle-check"),
            "failed": Badge(_("Failed"), "bad", "alert-octagon"),
            "gone": Badge(_("Gone"), "idle", "circle-minus"),
        },
        "task_profile": {"stale": Badge(_("Stale"), "warn", "clock-exclamation")},
    },
    inbox=(InboxSource(find=plans_to_start, tells=((PLAN, GraphPlanState.PROPOSED),)),),
    nav=(NavItem(name=_("Task graphs"), path="/graphs/", icon=ICON, rank=26, follows_changes=True),),
    search=(SearchSource(_("Task graphs"), find_graphs),),
    destinations=(SearchDestination(title=_("Task graphs"), url="/graphs/", icon=ICON),),
    nouns={"graphs": lambda count: ngettext("graph", "graphs", count)},
    webhook_events=(
        WebhookEventType(
            "graph.plan",
            _("A plan of a task graph was made, started or replaced, or could not be made."),
            plan_payload,
            GraphPlanMoved,
        ),
    ),
    webhook_heading=_("Task graphs"),
    hooks=(
        lambda: register_need_source("graphs", of_profiles),
        lambda: register_uses(VERSIONS_OF_GRAPHS),
        lambda: register_uses(VERSIONS_OF_TASKS),
        lambda: register_uses(MODELS_OF_CODE),
        lambda: register_companions(TASK_MODELS),
    ),
)
