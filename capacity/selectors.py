"""What may be seen of capacity."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Prefetch, Q, QuerySet
from django.http import Http404
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.selectors import may
from accounts.states import Right
from capacity.charts import load_charts
from capacity.errors import InvalidWorkload
from capacity.fragmentation import RackFragments, fragments
from capacity.ledger import CardLedger, PoolMachineCards, ledger_of
from capacity.machines import ServiceMachine, service_machines
from capacity.models import (
    Allocation,
    CapacityPlan,
    CardLayout,
    CardSample,
    GroupSwitch,
    Pool,
    PoolMember,
    ScalingPolicy,
    ServiceGroups,
    ServiceQueue,
)
from capacity.states import OPEN, Granularity, PoolKind
from clusters.models import Deployment
from clusters.states import GONE
from common import clock
from common.actor import Actor
from common.errors import Missing
from common.pages.charts import Chart, Paint, Series
from gateway import selectors as gateways

LATEST_SWITCHES = 10
SHOWN_PAST = timedelta(days=1)


def pools(actor: Actor) -> QuerySet[Pool]:
    """Pools of teams that the actor may read, with their services and their open plan."""
    visible = Pool.objects.for_actor(actor, Right.READ).select_related("team", "cluster")
    members = PoolMember.objects.select_related("groups", "queue")
    open_plans = CapacityPlan.objects.filter(state__in=OPEN)
    shown = Prefetch("memberships", members)
    return visible.prefetch_related(shown, Prefetch("plans", open_plans, to_attr="open_plans"))


def pool_of(actor: Actor, pk: int) -> Pool:
    """Raises Http404 where there is none that the actor may see."""
    row = pools(actor).filter(pk=pk).first()
    if row is None:
        raise Http404
    return row


def member_of(actor: Actor, service: str) -> PoolMember:
    """Raises Missing where the service is in no pool that the actor may see."""
    rows = PoolMember.objects.filter(pool__in=Pool.objects.for_actor(actor, Right.READ), service=service)
    row = rows.select_related("pool__team", "pool__cluster").first()
    if row is None:
        raise Missing(_("%(service)s is in no pool that you may see.") % {"service": service})
    return row


def policies(member: PoolMember) -> QuerySet[ScalingPolicy]:
    return ScalingPolicy.objects.with_force().filter(member=member)[:LATEST_SWITCHES]


def groups(actor: Actor) -> QuerySet[ServiceGroups]:
    return ServiceGroups.objects.for_actor(actor, Right.READ).select_related("member__pool__team")


def queues(actor: Actor) -> QuerySet[ServiceQueue]:
    return ServiceQueue.objects.for_actor(actor, Right.READ).select_related("member__pool__team")


def late_queues(actor: Actor) -> QuerySet[ServiceQueue]:
    """Queues that will miss their deadline, of pools that the actor may change."""
    rows = ServiceQueue.objects.for_actor(actor, Right.CAPACITY_WRITE).select_related("member__pool__team")
    return rows.filter(late_since__isnull=False)


def switches(pool: Pool) -> QuerySet[GroupSwitch]:
    """Return the latest decisions on groups of its services."""
    rows = GroupSwitch.objects.filter(groups__member__pool=pool)
    return rows.select_related("groups__member")[:LATEST_SWITCHES]


def pool_named(actor: Actor, name: str) -> Pool:
    """Raises InvalidWorkload where there is none of that name, or several, that the actor may see."""
    found = list(
        Pool.objects.for_actor(actor, Right.READ).select_related("team", "cluster").filter(name=name)
    )
    if len(found) != 1:
        none = _("There is no pool %(name)s.") if not found else _("Several teams have a pool %(name)s.")
        raise InvalidWorkload(fields={"pool": [none % {"name": name}]})
    return found[0]


def plans(actor: Actor) -> QuerySet[CapacityPlan]:
    return CapacityPlan.objects.for_actor(actor, Right.READ).select_related("pool__team", "pool__cluster")


def plans_to_decide(actor: Actor) -> QuerySet[CapacityPlan]:
    """Proposed plans of pools that ask, for those who may apply them."""
    rows = CapacityPlan.objects.for_actor(actor, Right.CAPACITY_APPLY).select_related("pool__team")
    return rows.filter(state="proposed", pool__state="approve")


def allocations(actor: Actor) -> QuerySet[Allocation]:
    """Cards that workloads and services hold in pools that the actor may read."""
    pools = Pool.objects.for_actor(actor, Right.READ)
    mine = Q(workload__pool__in=pools) | Q(lender__in=pools)
    rows = Allocation.objects.filter(mine).select_related("cluster", "lender", "workload__pool")
    return rows.order_by("cluster__name", "machine", "card")


def services_for(actor: Actor, pool: Pool) -> dict[str, int]:
    """Services with workers in the pool's cluster that the actor may put into it, with their teams."""
    rows = Deployment.objects.for_actor(actor, Right.CAPACITY_WRITE).exclude(state__in=GONE)
    routed = gateways.routes().filter(gateway__cluster=pool.cluster_id).values("service")
    return dict(rows.filter(service__in=routed).order_by("service").values_list("service", "team_id"))


@dataclass(frozen=True, slots=True)
class PoolNow:
    """A pool for a page: its services with their last look, and how its workers are spread."""

    pool: Pool
    members: list[PoolMember]
    groups: list[ServiceGroups]
    queues: list[ServiceQueue]
    plan: CapacityPlan | None
    used: int
    ready: int
    guaranteed: int
    load: float
    may_write: bool
    may_apply: bool
    charts: list[tuple[str, Chart]] = field(default_factory=list)
    """By service."""
    cards: "PoolCards | None" = None
    """Of a pool of machines."""
    machines: list[ServiceMachine] = field(default_factory=list)
    """Of a serving pool that hands out whole machines."""

    @property
    def free(self) -> int:
        return max(0, self.pool.workers - self.used)


@dataclass(frozen=True, slots=True)
class PoolCards:
    """Cards of a pool: lent to others, borrowed from others, and its machines."""

    machines: list[PoolMachineCards]
    total: int
    free: int
    own: int
    lent: int
    borrowed: int
    queued: int

    @property
    def is_simulated(self) -> bool:
        return any(machine.is_simulated for machine in self.machines)


def cards_now(pool: Pool, ledger: CardLedger) -> PoolCards:
    machines = ledger.of(pool)
    holders = [(m.pool.pk, one.pool_id) for m in ledger.machines for one in m.holders.values()]
    return PoolCards(
        machines=machines,
        total=sum(machine.cards for machine in machines),
        free=sum(len(machine.free) for machine in machines),
        own=holders.count((pool.pk, pool.pk)),
        lent=sum(owner == pool.pk != holder for owner, holder in holders),
        borrowed=sum(holder == pool.pk != owner for owner, holder in holders),
        queued=sum(one.pool_id == pool.pk and not one.holds_cards for one in ledger.workloads.values()),
    )


@dataclass(frozen=True, slots=True)
class PoolCard:
    """A card of a pool. instances: into which it is or will be divided. closed: code of why nothing is placed
    there."""

    machine: str
    card: int
    model: str
    holder: str
    instances: list[dict[str, Any]]
    is_simulated: bool
    closed: str
    way: str = ""
    """Who divides it: `label` (of the machine, all its cards), `claims` of pods; empty: nobody, on paper."""
    room: Mapping[str, int] = field(default_factory=dict)
    """How many instances of each profile pods could still claim, if none of another came; of claims alone."""


def cards_of(pool: Pool) -> list[PoolCard]:
    return [
        PoolCard(
            machine=one.name,
            card=card,
            model=one.model,
            holder=str(one.holders.get(card, "")) or _whole_holder(one, card),
            instances=one.divided.get(card) or one.divided.get(None, []),
            is_simulated=one.is_simulated,
            closed=one.closed,
            way="claims" if one.claimable else "" if one.is_simulated else "label",
            room=one.claimable[card]["room"] if card in one.claimable else {},
        )
        for one in ledger_of(pool.cluster).of(pool)
        for card in range(one.cards)
    ]


def _whole_holder(machine: PoolMachineCards, card: int) -> str:
    """Return the pods that have claimed the whole card."""
    held = machine.claimable.get(card, {}).get("held", ())
    return next((", ".join(one["users"]) or one["claim"] for one in held if not one["profile"]), "")


def layouts(pool: Pool) -> QuerySet[CardLayout]:
    """The latest changes of its cards."""
    return CardLayout.objects.filter(pool=pool).select_related("undone_by")[:LATEST_SWITCHES]


def fragments_now(pool: Pool) -> list[RackFragments]:
    return fragments(ledger_of(pool.cluster).of(pool))


def card_samples(pool: Pool) -> QuerySet[CardSample]:
    """Samples of the last day, ascending."""
    return CardSample.objects.filter(pool=pool, at__gte=clock.now() - SHOWN_PAST)


def startable_over_time(pool: Pool) -> Chart:
    """Jobs of the pool that could start, all racks together, over the last day."""
    by_time: dict[datetime, dict[str, int]] = {}
    for sample in card_samples(pool):
        counts = by_time.setdefault(sample.at, {})
        for size, number in sample.startable.items():
            counts[size] = counts.get(size, 0) + number
    paints: tuple[Paint, ...] = ("ink", "good", "warn", "bad")
    return Chart(
        title=_("Jobs that could start"),
        moments=list(by_time),
        series=[
            Series(
                ngettext("%(cards)s card", "%(cards)s cards", size) % {"cards": size},
                [counts.get(str(size)) for counts in by_time.values()],
                paint=paint,
                stepped=True,
            )
            for size, paint in zip((1, 2, 4, 8), paints, strict=True)
        ],
        unit="count",
        minimum=0,
    )


def pools_now(actor: Actor, shown: Iterable[Pool]) -> list[PoolNow]:
    """`shown` as `pools` reads them."""
    chosen = list(shown)
    clusters = {pool.cluster_id: pool.cluster for pool in chosen if pool.kind != PoolKind.SERVING}
    ledgers = {pk: ledger_of(cluster) for pk, cluster in clusters.items()}
    return [_pool_now(actor, pool, ledgers.get(pool.cluster_id)) for pool in chosen]


def _pool_now(actor: Actor, pool: Pool, ledger: CardLedger | None) -> PoolNow:
    members = list(pool.memberships.all())
    looks = [member.look for member in members if member.look]
    is_whole = pool.kind == PoolKind.SERVING and pool.granularity == Granularity.MACHINE
    return PoolNow(
        pool=pool,
        members=members,
        groups=[member.groups for member in members if hasattr(member, "groups")],
        queues=[member.queue for member in members if hasattr(member, "queue")],
        plan=next(iter(pool.open_plans), None),  # type: ignore[attr-defined]
        used=sum(look["have"] for look in looks),
        ready=sum(look["ready"] for look in looks),
        guaranteed=sum(member.guarantee for member in members),
        load=sum(look["load"] for look in looks),
        may_write=may(actor, Right.CAPACITY_WRITE, pool.team),
        may_apply=may(actor, Right.CAPACITY_APPLY, pool.team),
        charts=load_charts(members),
        cards=None if ledger is None or pool.kind == PoolKind.SERVING else cards_now(pool, ledger),
        machines=service_machines(pool) if is_whole else [],
    )
