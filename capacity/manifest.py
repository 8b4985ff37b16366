"""What capacity adds to the whole."""

from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from accounts.actors import of_user
from accounts.models import User
from accounts.states import Right
from capacity import selectors
from capacity.events import CapacityPlanMoved
from capacity.models import CapacityPlan
from capacity.pruning import RULES
from capacity.reconcilers import CapacityPlanReconciler, PoolReconciler, ServiceGroupsReconciler
from capacity.states import CapacityPlanState, PoolMode
from common.actor import Actor
from common.choices import ChoiceSet
from common.declared import AppManifest
from common.pages.badges import Badge
from common.pages.inbox import InboxEntry, InboxSource
from common.pages.search import Person, SearchDestination, SearchHit, SearchSource
from common.pages.shell import NavItem
from common.pages.subjects import Subject
from common.webhooks.catalogue import EventPayload, Ids, WebhookEventType
from common.words import mentioning

PLAN = "capacity.capacityplan"
AT_MOST = 20


def plans_to_decide(actor: Actor) -> Iterator[InboxEntry]:
    for plan in selectors.plans_to_decide(actor)[:AT_MOST]:
        yield InboxEntry(
            badge=("capacity_plan", plan.state),
            title=str(plan),
            url=f"/capacity/plans/{plan.pk}/",
            since=plan.created_at,
            why="; ".join(f"{c['service']} {c['before']} → {c['after']}" for c in plan.changes),
        )


def find_pools(person: Person, text: str, limit: int) -> Iterator[SearchHit]:
    if isinstance(person, User):
        rows = mentioning(selectors.pools(of_user(person)), text, ("name", "description"))
        for row in rows[:limit]:
            yield SearchHit(row.name, f"/capacity/{row.pk}/", "arrows-exchange", row.team.name)


def plan_payload(ids: Ids) -> EventPayload | None:
    plan = CapacityPlan.objects.select_related("pool").filter(pk=ids["plan_id"]).first()
    if plan is None:
        return None
    document = {"id": plan.pk, "pool": plan.pool.name, "state": plan.state, "changes": plan.changes}
    return EventPayload(plan.pool.team_id, {**ids, "plan": document})


MANIFEST = AppManifest(
    reconcilers=(PoolReconciler(), CapacityPlanReconciler(), ServiceGroupsReconciler()),
    subjects=(
        Subject("capacity.pool", _("Pool"), "/capacity/{pk}/", badges="pool"),
        Subject("capacity.servicegroups", _("Groups of a service"), "/capacity/"),
        Subject(PLAN, _("Capacity plan"), "/capacity/plans/{pk}/", badges="capacity_plan"),
    ),
    choices=(
        ChoiceSet(PoolMode, badges="pool", schema="PoolMode"),
        ChoiceSet(CapacityPlanState, badges="capacity_plan", schema="CapacityPlanState"),
    ),
    badges={
        "pool": {
            "off": Badge(_("Off"), "idle", "circle-off"),
            "advise": Badge(_("Advise"), "good", "bulb"),
            "approve": Badge(_("Ask for approval"), "good", "hand-stop"),
            "automatic": Badge(_("Automatic"), "busy", "refresh"),
        },
        "capacity_plan": {
            "proposed": Badge(_("Proposed"), "ask", "help-circle"),
            "releasing": Badge(_("Releasing"), "busy", "loader-2"),
            "acquiring": Badge(_("Acquiring"), "busy", "loader-2"),
            "done": Badge(_("Done"), "good", "circle-check"),
            "failed": Badge(_("Failed"), "bad", "alert-octagon"),
            "stopped": Badge(_("Stopped"), "warn", "hand-stop"),
            "superseded": Badge(_("Superseded"), "idle", "arrow-forward-up"),
            "rejected": Badge(_("Rejected"), "idle", "ban"),
            "undone": Badge(_("Undone"), "idle", "arrow-back-up"),
        },
    },
    inbox=(InboxSource(find=plans_to_decide, tells=((PLAN, CapacityPlanState.PROPOSED),)),),
    nav=(
        NavItem(name=_("Capacity"), path="/capacity/", icon="arrows-exchange", rank=55, follows_changes=True),
    ),
    search=(SearchSource(_("Pools"), find_pools),),
    destinations=(
        SearchDestination(
            title=_("Capacity"), url="/capacity/", icon="arrows-exchange", words="pools scale workers"
        ),
        SearchDestination(
            title=_("New pool"),
            url="/capacity/+new/",
            icon="arrows-exchange",
            right=Right.CAPACITY_WRITE,
            is_command=True,
        ),
    ),
    nouns={"pools": lambda count: ngettext("pool", "pools", count)},
    webhook_events=(
        WebhookEventType(
            "capacity.plan",
            _("A capacity plan was proposed, or its state changed."),
            plan_payload,
            CapacityPlanMoved,
        ),
    ),
    pruning=RULES,
    webhook_heading=_("Capacity"),
)
