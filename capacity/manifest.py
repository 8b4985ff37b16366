"""What capacity adds to the whole."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from accounts.actors import of_user
from accounts.models import User
from accounts.states import Right
from capacity import selectors
from capacity.changes import change_in_words
from capacity.events import CapacityPlanMoved, QueueWillBeLate, WorkloadMoved
from capacity.measures import plans, services_of_pools, workloads_and_cards
from capacity.models import CapacityPlan, ServiceQueue, Workload
from capacity.pages import PAGES
from capacity.pruning import RULES
from capacity.queue_looks import PURPOSE as QUEUE_PURPOSE
from capacity.reconcilers import (
    CapacityPlanReconciler,
    CardLayoutReconciler,
    PoolReconciler,
    ServiceGroupsReconciler,
    ServiceQueueReconciler,
)
from capacity.reconcilers.workloads import WorkloadReconciler
from capacity.states import (
    CapacityPlanKind,
    CapacityPlanState,
    CardSharing,
    Granularity,
    LayoutState,
    PoolKind,
    PoolMode,
    QueueKind,
    WorkloadAdmission,
    WorkloadKind,
    WorkloadState,
)
from common.actor import Actor
from common.alert_checks import AlertCheck, measured
from common.choices import ChoiceSet
from common.configuration import ConfigurationKind
from common.declared import AppManifest
from common.pages.badges import Badge
from common.pages.inbox import InboxEntry, InboxSource
from common.pages.search import Person, SearchDestination, SearchHit, SearchSource
from common.pages.shell import NavItem
from common.pages.subjects import Subject
from common.resealing import SealedColumn
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
            why="; ".join(change_in_words(change) for change in plan.changes),
        )


def late_queues(actor: Actor) -> Iterator[InboxEntry]:
    for row in selectors.late_queues(actor)[:AT_MOST]:
        late = _("%(seconds)d s late with all workers that it may have")
        yield InboxEntry(
            badge=("queue", "late"),
            title=str(row),
            url=f"/capacity/{row.member.pool_id}/",
            since=row.late_since,
            why=late % {"seconds": round(row.figures.get("late_seconds", 0))},
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


def queue_payload(ids: Ids) -> EventPayload | None:
    row = ServiceQueue.objects.select_related("member__pool").filter(pk=ids["queue_id"]).first()
    if row is None:
        return None
    deadline = row.deadline.isoformat() if row.deadline else None
    document = {"service": row.member.service, "pool": row.member.pool.name, "deadline": deadline}
    return EventPayload(row.member.pool.team_id, {**ids, "queue": {**document, "look": row.look}})


def workload_payload(ids: Ids) -> EventPayload | None:
    row = Workload.objects.select_related("pool").filter(pk=ids["workload_id"]).first()
    if row is None:
        return None
    document = {"id": row.pk, "name": row.name, "pool": row.pool.name, "state": row.state, "runs": row.runs}
    return EventPayload(row.team_id, {**ids, "workload": {**document, "problem": row.problem}})


def _members_as_written(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members without what was looked at."""
    fields = ("service", "guarantee", "limit", "weight")
    return {"members": [{field: one[field] for field in fields} for one in row["members"]]}


MANIFEST = AppManifest(
    reconcilers=(
        PoolReconciler(),
        CapacityPlanReconciler(),
        ServiceGroupsReconciler(),
        ServiceQueueReconciler(),
        CardLayoutReconciler(),
        WorkloadReconciler(),
    ),
    metrics=(services_of_pools, workloads_and_cards, plans),
    alert_checks=(
        AlertCheck(
            name="SlipwayCapacityBlind",
            title=_("The workers of a service send no heartbeats: it keeps what it has"),
            severity="warning",
            find=measured(services_of_pools, "capacity_silent", by=("pool", "service"), address="/capacity/"),
            lasts=timedelta(minutes=2),
        ),
        AlertCheck(
            name="SlipwayCapacityPlanFailed",
            title=_("The latest plan of a pool has failed"),
            severity="warning",
            find=measured(plans, "capacity_plan", by=("pool",), address="/capacity/", state="failed"),
            note=_("Its page says why. Undo it, or wait for the next one."),
        ),
        AlertCheck(
            name="SlipwayQueueLate",
            title=_("A queue will miss its deadline"),
            severity="warning",
            find=measured(
                services_of_pools, "capacity_late_seconds", by=("pool", "service"), address="/capacity/"
            ),
            note=_("All workers that it may have are not enough: raise its limit, or its deadline."),
        ),
    ),
    subjects=(
        Subject("capacity.pool", _("Pool"), "/capacity/{pk}/", badges="pool"),
        Subject("capacity.servicegroups", _("Groups of a service"), "/capacity/"),
        Subject("capacity.servicequeue", _("Queue of a service"), "/capacity/"),
        Subject("capacity.cardlayout", _("Card layout"), "/capacity/", badges="card_layout"),
        Subject(PLAN, _("Capacity plan"), "/capacity/plans/{pk}/", badges="capacity_plan"),
        Subject("capacity.workload", _("Workload"), PAGES.path + "{pk}/", badges="workload"),
    ),
    choices=(
        ChoiceSet(PoolKind, schema="PoolKind"),
        ChoiceSet(Granularity, schema="PoolGranularity"),
        ChoiceSet(WorkloadAdmission, schema="PoolAdmission"),
        ChoiceSet(CapacityPlanKind, schema="CapacityPlanKind"),
        ChoiceSet(CardSharing, schema="CardSharing"),
        ChoiceSet(LayoutState, badges="card_layout", schema="CardLayoutState"),
        ChoiceSet(QueueKind, schema="QueueKind"),
        ChoiceSet(WorkloadKind, schema="WorkloadKind"),
        ChoiceSet(WorkloadState, badges="workload", schema="WorkloadState"),
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
        "card_layout": {
            "draining": Badge(_("Draining"), "busy", "loader-2"),
            "applying": Badge(_("Applying"), "busy", "loader-2"),
            "returning": Badge(_("Returning to service"), "busy", "loader-2"),
            "applied": Badge(_("Applied"), "good", "circle-check"),
            "failed": Badge(_("Failed"), "bad", "alert-octagon"),
        },
        "queue": {"late": Badge(_("Late"), "warn", "clock-exclamation")},
        "workload": {
            "queued": Badge(_("Queued"), "idle", "clock"),
            "starting": Badge(_("Starting"), "busy", "loader-2"),
            "running": Badge(_("Running"), "good", "player-play"),
            "checkpointing": Badge(_("Writing a checkpoint"), "busy", "device-floppy"),
            "stopping": Badge(_("Stopping"), "busy", "loader-2"),
            "succeeded": Badge(_("Succeeded"), "good", "circle-check"),
            "failed": Badge(_("Failed"), "bad", "alert-octagon"),
            "cancelled": Badge(_("Cancelled"), "idle", "ban"),
        },
    },
    inbox=(
        InboxSource(find=plans_to_decide, tells=((PLAN, CapacityPlanState.PROPOSED),)),
        InboxSource(find=late_queues),
    ),
    sealed=(SealedColumn(ServiceQueue, "sealed_secret", QUEUE_PURPOSE),),
    nav=(
        NavItem(name=_("Capacity"), path="/capacity/", icon="arrows-exchange", rank=54, follows_changes=True),
        PAGES.nav,
    ),
    search=(SearchSource(_("Pools"), find_pools), PAGES.search),
    destinations=(
        SearchDestination(
            title=_("Capacity"), url="/capacity/", icon="arrows-exchange", words="pools scale workers"
        ),
        *PAGES.destinations,
        SearchDestination(
            title=_("New pool"),
            url="/capacity/+new/",
            icon="arrows-exchange",
            right=Right.CAPACITY_WRITE,
            is_command=True,
        ),
    ),
    nouns={
        "pools": lambda count: ngettext("pool", "pools", count),
        "workloads": lambda count: ngettext("workload", "workloads", count),
    },
    webhook_events=(
        WebhookEventType(
            "capacity.plan",
            _("A capacity plan was proposed, or its state changed."),
            plan_payload,
            CapacityPlanMoved,
        ),
        WebhookEventType(
            "capacity.queue_late",
            _("The work of a queue will not be done by its deadline."),
            queue_payload,
            QueueWillBeLate,
        ),
        WebhookEventType(
            "capacity.workload",
            _("A workload was queued, or its state changed."),
            workload_payload,
            WorkloadMoved,
        ),
    ),
    configuration=(
        ConfigurationKind(
            "pool",
            routes="pool",
            lookup="pool",
            found_in_list=True,
            takes_reason=False,
            written=_members_as_written,
        ),
    ),
    pruning=RULES,
    webhook_heading=_("Capacity"),
)
