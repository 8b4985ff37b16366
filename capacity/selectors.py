"""What may be seen of capacity."""

from dataclasses import dataclass, field

from django.db.models import Prefetch, QuerySet
from django.http import Http404
from django.utils.translation import gettext as _

from accounts.selectors import may
from accounts.states import Right
from capacity.charts import load_charts
from capacity.models import CapacityPlan, GroupSwitch, Pool, PoolMember, ScalingPolicy, ServiceGroups
from capacity.states import OPEN
from clusters.models import Deployment
from clusters.states import GONE
from common.actor import Actor
from common.errors import Missing
from common.pages.charts import Chart
from gateway import selectors as gateways

LATEST_SWITCHES = 10


def pools(actor: Actor) -> QuerySet[Pool]:
    """Pools of teams that the actor may read, with their services and their open plan."""
    visible = Pool.objects.for_actor(actor, Right.READ).select_related("team", "cluster")
    members = PoolMember.objects.select_related("groups")
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
    return ScalingPolicy.objects.filter(member=member)[:LATEST_SWITCHES]


def groups(actor: Actor) -> QuerySet[ServiceGroups]:
    return ServiceGroups.objects.for_actor(actor, Right.READ).select_related("member__pool__team")


def switches(pool: Pool) -> QuerySet[GroupSwitch]:
    """Return the latest decisions on groups of its services."""
    rows = GroupSwitch.objects.filter(groups__member__pool=pool)
    return rows.select_related("groups__member")[:LATEST_SWITCHES]


def plans(actor: Actor) -> QuerySet[CapacityPlan]:
    return CapacityPlan.objects.for_actor(actor, Right.READ).select_related("pool__team", "pool__cluster")


def plans_to_decide(actor: Actor) -> QuerySet[CapacityPlan]:
    """Proposed plans of pools that ask, for those who may apply them."""
    rows = CapacityPlan.objects.for_actor(actor, Right.CAPACITY_APPLY).select_related("pool__team")
    return rows.filter(state="proposed", pool__state="approve")


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
    plan: CapacityPlan | None
    used: int
    ready: int
    guaranteed: int
    load: float
    may_write: bool
    may_apply: bool
    charts: list[tuple[str, Chart]] = field(default_factory=list)
    """By service."""

    @property
    def free(self) -> int:
        return max(0, self.pool.workers - self.used)


def pool_now(actor: Actor, pool: Pool) -> PoolNow:
    """`pool` as `pools` reads it."""
    members = list(pool.memberships.all())
    looks = [member.look for member in members if member.look]
    return PoolNow(
        pool=pool,
        members=members,
        groups=[member.groups for member in members if hasattr(member, "groups")],
        plan=next(iter(pool.open_plans), None),  # type: ignore[attr-defined]
        used=sum(look["have"] for look in looks),
        ready=sum(look["ready"] for look in looks),
        guaranteed=sum(member.guarantee for member in members),
        load=sum(look["load"] for look in looks),
        may_write=may(actor, Right.CAPACITY_WRITE, pool.team),
        may_apply=may(actor, Right.CAPACITY_APPLY, pool.team),
        charts=load_charts(members),
    )
