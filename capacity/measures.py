"""Capacity for Prometheus: load and workers of services, cards, workloads, plans, and the kill switch."""

from collections.abc import Iterator

from django.db.models import Count, OuterRef, Subquery
from prometheus_client.metrics_core import Metric

from capacity.models import Allocation, CapacityPlan, CapacityStop, Pool, PoolMember, Workload
from capacity.states import ENDED, PoolMode
from common.metrics import gauge

SERVICE = ("pool", "service")
FIGURES = {
    "load": "Work that arrives, in workers.",
    "need": "Workers at the target utilisation, with what waits.",
    "granted": "Workers that the pool gives.",
    "ready": "Workers that answer.",
}


def services_of_pools() -> Iterator[Metric]:
    looked_at = PoolMember.objects.exclude(pool__state=PoolMode.OFF)
    members = list(looked_at.select_related("pool", "queue"))
    seen = [(str(one.pool), one.service, one.look) for one in members if one.look]
    for name, about in FIGURES.items():
        samples = [((pool, service), float(look[name])) for pool, service, look in seen]
        yield gauge(f"capacity_{name}_workers", about, SERVICE, samples)
    silent = [((pool, service), float(look["held"] == "no_heartbeats")) for pool, service, look in seen]
    yield gauge("capacity_silent", "Whether the workers of a service send no heartbeats.", SERVICE, silent)
    late = [
        ((str(one.pool), one.service), float(one.queue.figures.get("late_seconds", 0.0)))
        for one in members
        if hasattr(one, "queue") and one.queue.deadline is not None
    ]
    about = "By which a queue will miss its deadline with all workers that it may have."
    yield gauge("capacity_late_seconds", about, SERVICE, late)


def workloads_and_cards() -> Iterator[Metric]:
    counts = Workload.objects.exclude(state__in=ENDED).values_list("pool__name", "state")
    samples = [((pool, state), float(number)) for pool, state, number in counts.annotate(number=Count("pk"))]
    yield gauge("workloads", "Workloads that wait or run, by state.", ("pool", "state"), samples)
    held = Allocation.objects.exclude(workload=None).values_list("workload__pool__name", "lender__name")
    cards = [
        ((pool, lender or ""), float(number)) for pool, lender, number in held.annotate(number=Count("pk"))
    ]
    about = "Cards that workloads of a pool hold; lender: the pool that owns them, where it is another."
    yield gauge("capacity_cards", about, ("pool", "lender"), cards)


def plans() -> Iterator[Metric]:
    latest = CapacityPlan.objects.filter(pool=OuterRef("pk")).order_by("-pk").values("state")[:1]
    pools = Pool.objects.annotate(latest=Subquery(latest)).exclude(latest=None)
    samples = [((pool, state), 1.0) for pool, state in pools.values_list("name", "latest")]
    yield gauge("capacity_plan", "State of the latest plan of a pool.", ("pool", "state"), samples)
    stopped = [((), float(CapacityStop.now().is_on))]
    yield gauge("capacity_stopped", "Whether the kill switch of capacity is on.", (), stopped)
