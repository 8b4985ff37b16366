"""From rows to what statistics count, and back to names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from django.db.models import Count, Q, QuerySet

from clusters.models import Gpu, Node
from clusters.states import GpuState, NodeState
from common import clock
from common.actor import Actor
from gpu_health import selectors
from gpu_health.incident_facts import policy
from gpu_health.models import GpuPrices, Incident, IncidentEntry
from gpu_health.states import ENDED_INCIDENTS, IncidentState
from gpu_health.statistics.cases import (
    GpuPresence,
    IncidentCase,
    Price,
    StatisticsWindow,
    TimeSpan,
    out_of_service,
)
from gpu_health.statistics.figures import StatisticsReport, report

LAST = timedelta(days=30)
"""What is looked at unless another time is asked for."""
RETURNED = (IncidentState.WATCHING, IncidentState.CLOSED)
TIMELINE = (IncidentState.QUARANTINED, IncidentState.WATCHING, *ENDED_INCIDENTS)


@dataclass(frozen=True)
class StatisticsQuery:
    """The filter of the statistics; an empty field means all."""

    window: StatisticsWindow
    cluster: str = ""
    gpu_model: str = ""
    fault: str = ""

    @classmethod
    def of_the_last(cls, length: timedelta = LAST, **narrowed: str) -> "StatisticsQuery":
        now = clock.now()
        return cls(StatisticsWindow(now - length, now), **narrowed)


@dataclass(frozen=True)
class StatisticsResult:
    question: StatisticsQuery
    cases: list[IncidentCase]
    report: StatisticsReport
    currency: str
    prices: tuple[Price, ...]
    lemons: Mapping[int, int] = field(default_factory=dict)
    """Machines of the cases that the lemon guard stops, and how often each was acted on in its time."""

    @cached_property
    def nodes(self) -> Mapping[int, IncidentCase]:
        """A case of each machine, by machine."""
        return {one.node_id: one for one in self.cases}


def counted(rows: QuerySet[Incident]) -> QuerySet[Incident]:
    """Leave out the incidents of drills."""
    return rows.filter(drill=None)


def prices() -> GpuPrices:
    """Return the stored prices, or an unstored empty row while nobody has set one."""
    return GpuPrices.objects.filter(pk=GpuPrices.ONLY).first() or GpuPrices(pk=GpuPrices.ONLY, revision=0)


def statistics(actor: Actor | None, question: StatisticsQuery) -> StatisticsResult:
    """Statistics of the machines that the actor may see; None: of all."""
    stored = prices()
    cases = _cases(actor, question)
    return StatisticsResult(
        question=question,
        cases=cases,
        report=report(cases, _fleet(actor, question), stored.entries, question.window),
        currency=stored.currency,
        prices=stored.entries,
        lemons=_lemons({one.node_id for one in cases}),
    )


def of_window(rows: QuerySet[Incident], window: StatisticsWindow) -> QuerySet[Incident]:
    """Keep incidents first seen before the window's end that had not ended before its beginning."""
    return rows.filter(Q(ended_at=None) | Q(ended_at__gte=window.since), first_at__lt=window.until)


def _cases(actor: Actor | None, question: StatisticsQuery) -> list[IncidentCase]:
    seen = Incident.objects.all() if actor is None else selectors.incidents(actor)
    rows = of_window(counted(seen), question.window)
    if question.cluster:
        rows = rows.filter(node__cluster__name=question.cluster)
    if question.gpu_model:
        rows = rows.filter(gpu_model__icontains=question.gpu_model)
    if question.fault:
        rows = rows.filter(fault=question.fault)
    timelines: dict[int, list[tuple[datetime, str]]] = {}
    entries = IncidentEntry.objects.filter(incident__in=rows.order_by().values("pk"), state__in=TIMELINE)
    for pk, at, state in entries.order_by("pk").values_list("incident_id", "at", "state"):
        timelines.setdefault(pk, []).append((at, state))
    columns = (
        *("pk", "node_id", "node__name", "node__cluster__name", "gpu_model", "gpu_count", "fault", "state"),
        *("first_at", "opened_at", "returned_at", "acts"),
    )
    return [
        IncidentCase(
            incident=row["pk"],
            node_id=row["node_id"],
            node=row["node__name"],
            cluster=row["node__cluster__name"],
            gpu_model=row["gpu_model"],
            gpus=row["gpu_count"],
            fault=row["fault"],
            state=row["state"],
            seen_at=row["first_at"],
            found_at=row["opened_at"],
            returned_at=row["returned_at"] if row["state"] in RETURNED else None,
            actions=row["acts"],
            out=out_of_service(timelines.get(row["pk"], ())),
        )
        for row in rows.order_by("pk").values(*columns)
    ]


def _fleet(actor: Actor | None, question: StatisticsQuery) -> list[GpuPresence]:
    rows = Gpu.objects.all()
    if actor is not None:
        rows = rows.filter(node__in=Node.objects.for_actor(actor))
    if question.cluster:
        rows = rows.filter(node__cluster__name=question.cluster)
    if question.gpu_model:
        rows = rows.filter(name__icontains=question.gpu_model)
    is_gone = Q(state=GpuState.GONE) | Q(node__state=NodeState.GONE)
    present = rows.exclude(is_gone).order_by().values("node_id", "name", "node__created_at")
    found = [
        GpuPresence(node_id, name, count, TimeSpan(since))
        for node_id, name, since, count in present.annotate(count=Count("pk")).values_list(
            "node_id", "name", "node__created_at", "count"
        )
    ]
    gone = rows.filter(is_gone).order_by()
    columns = ("node_id", "name", "node__created_at", "state", "state_since", "node__state_since")
    for node_id, name, since, state, gpu_since, node_since in gone.values_list(*columns):
        until = gpu_since if state == GpuState.GONE else node_since
        found.append(GpuPresence(node_id, name, 1, TimeSpan(since, until)))
    return found


def _lemons(node_ids: set[int]) -> dict[int, int]:
    limits = policy().figures
    since = clock.now() - timedelta(seconds=limits.lemon_seconds)
    rows = counted(Incident.objects.all()).filter(
        node_id__in=node_ids, acts__gt=0, state__in=ENDED_INCIDENTS, opened_at__gte=since
    )
    counts = rows.order_by().values("node_id").annotate(count=Count("pk"))
    found = counts.filter(count__gte=limits.lemon_remediations).values_list("node_id", "count")
    return dict(found)
