"""From rows to what the pure core of healing decides by."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, Max, OuterRef, Q

from clusters.models import Drain, Gpu, Node
from clusters.states import UNDER_WAY, GpuState, NodeState
from common.actor import Actor
from gpu_health.healing.facts import FindingFacts, GuardRefusal, IncidentFacts, IncidentStage
from gpu_health.healing.guards import EVERY, DomainFacts, GuardFacts, PoolFacts, refusal, windows_of
from gpu_health.models import (
    Finding,
    HealingPolicy,
    HealingPool,
    HealingSlot,
    Incident,
)
from gpu_health.policy.rule import DrainLevel as Scope
from gpu_health.policy.rule import RemediationAction, Severity, Verification
from gpu_health.pools import domain_of, groups_of
from gpu_health.signals.reading import GpuReading, ReadingSource
from gpu_health.states import ENDED_INCIDENTS, FindingOutcome, FindingState, IncidentState

BY = "gpu-health"
"""Whose cordons and taints are those of healing."""
ACTOR = Actor.system(BY)
ACTIONABLE = (FindingOutcome.ACT, FindingOutcome.PROPOSE)


def has_incident() -> Exists:
    """Return whether a machine has a fault that is not healed, as a condition on rows of machines."""
    healed = (*ENDED_INCIDENTS, IncidentState.WATCHING)
    return Exists(Incident.objects.filter(node=OuterRef("pk")).exclude(state__in=healed))


def policy() -> HealingPolicy:
    """Return the stored policy, or unstored defaults while nobody has changed anything."""
    return HealingPolicy.objects.filter(pk=HealingPolicy.ONLY).first() or HealingPolicy(
        pk=HealingPolicy.ONLY, revision=0
    )


def boot_of(reading: GpuReading) -> str:
    """The start of the machine in which it was seen; empty: its source does not say."""
    is_kernels = reading.source is ReadingSource.KERNEL_LOG and "/" in reading.origin
    return reading.boot or (reading.session if is_kernels else "")


def finding_facts(row: Finding) -> FindingFacts:
    return FindingFacts(
        pk=row.pk,
        fault=row.fault,
        device=row.device,
        severity=Severity(row.severity),
        acts=row.outcome in ACTIONABLE,
        by_itself=row.outcome == FindingOutcome.ACT,
        ladder=tuple(map(RemediationAction, row.ladder)),
        drain=Scope(row.drain),
        verification=Verification(row.verification),
        first_at=row.first_at,
        last_at=row.last_at,
        boot_id=row.boot_id,
        is_open=row.state == FindingState.OPEN,
        waived=_waived(row),
    )


def _waived(row: Finding) -> str:
    if row.state == FindingState.OPEN and row.outcome not in ACTIONABLE:
        return f"The rules in force say of {row.fault}: {row.outcome}."
    if row.state == FindingState.CLEARED and row.close_reason:
        return f"The rules in force ask for nothing about {row.fault}: {row.close_reason}."
    return ""


def open_findings(node_id: int) -> list[FindingFacts]:
    """Return a machine's open findings that call for an action."""
    rows = Finding.objects.filter(node_id=node_id, state=FindingState.OPEN, outcome__in=ACTIONABLE)
    return [finding_facts(row) for row in rows.order_by("pk")]


def incident_facts(row: Incident) -> IncidentFacts:
    lead = Finding.objects.filter(pk=row.finding_id).first() if row.finding_id else None
    return IncidentFacts(
        stage=IncidentStage(row.state),
        stage_since=row.state_since,
        lead=finding_facts(lead) if lead else None,
        ladder=tuple(map(RemediationAction, row.ladder)),
        rung=row.rung,
        rule_drain=Scope(row.drain),
        verification=Verification(row.verification),
        session=row.session,
        acted_at=row.acted_at,
        is_quarantined=row.is_out_of_service,
        check_failed=row.check_failed,
        cancel=row.cancel,
        returns_approved=row.returns_approved,
    )


def lead_columns(lead: FindingFacts, gpu_uuid: str, rule: str) -> dict[str, Any]:
    """Return the columns of an incident that this finding leads."""
    return {
        "finding_id": lead.pk,
        "fault": lead.fault,
        "device": lead.device,
        "gpu_uuid": gpu_uuid,
        "rule": rule,
        "severity": str(lead.severity),
        "ladder": [str(action) for action in lead.ladder],
        "rung": 0,
        "drain": str(lead.drain),
        "verification": str(lead.verification),
    }


def gpu_columns(node: Node) -> dict[str, Any]:
    """Model and number of the GPUs that the machine loses while it is out of service, as columns of an
    incident."""
    present = Gpu.objects.filter(node=node).exclude(state=GpuState.GONE)
    names = Counter(present.values_list("name", flat=True))
    return {"gpu_model": names.most_common(1)[0][0] if names else "", "gpu_count": names.total()}


def settled_until(node_id: int) -> datetime | None:
    """Return the time until which all readings are dealt with, by an action or by a person's word."""
    ended = Incident.objects.filter(node_id=node_id, state__in=ENDED_INCIDENTS, drill=None)
    found = ended.aggregate(acted=Max("acted_at"), cancelled=Max("ended_at", filter=~Q(cancelled_by="")))
    return max((at for at in found.values() if at is not None), default=None)


def stopping(row: Incident, held: HealingPolicy) -> GuardRefusal | None:
    """Return the refusal of a guard that stops everything; None: there is none."""
    found = refusal(_plain_facts(row, held, row.state_since), held.figures, EVERY)
    return found if found is not None and found.stops_all else None


def _plain_facts(row: Incident, held: HealingPolicy, now: datetime) -> GuardFacts:
    return GuardFacts(
        now=now,
        action=RemediationAction(row.action),
        fault=row.fault,
        severity=row.severity,
        by_itself=False,
        is_on=held.mode == "act",
        kill_switch=f"{held.kill_switch_by}: {held.kill_switch_reason}" if held.is_stopped else "",
        held_by_person=f"{row.held_by}: {row.held_reason}" if row.held_by else "",
    )


def guard_facts(row: Incident, pool: HealingPool, held: HealingPolicy, now: datetime) -> GuardFacts:
    """Everything that guards ask; read while the pool's row is held, so that numbers are exact."""
    limits = held.figures
    node = row.node
    lead = Finding.objects.filter(pk=row.finding_id).first() if row.finding_id else None
    drill = row.drill
    others = Incident.objects.filter(pool=row.pool, drill=None).exclude(pk=row.pk)
    own = Incident.objects.filter(node_id=row.node_id, acts__gt=0, state__in=ENDED_INCIDENTS, drill=None)
    last_end = own.aggregate(at=Max("ended_at"))["at"]
    machines = groups_of(node.cluster_id).pools.get(row.pool, frozenset())
    present = Node.objects.filter(cluster_id=node.cluster_id).exclude(state=NodeState.GONE)
    drilled = Incident.objects.filter(drill__isnull=False).exclude(state__in=ENDED_INCIDENTS)
    cordoned = Q(is_cordoned=True) & ~Q(cordoned_by=BY, pk__in=drilled.values("node_id"))
    unusable = present.filter(cordoned | ~Q(state=NodeState.READY))
    bad = machines.intersection(unusable.order_by().values_list("pk", flat=True))
    bad |= set(
        others.filter(is_quarantined=True)
        .exclude(state__in=ENDED_INCIDENTS)
        .values_list("node_id", flat=True)
    )
    since = now - timedelta(seconds=limits.breaker_seconds)
    if pool.breaker_reset_at is not None:
        since = max(since, pool.breaker_reset_at)
    # Those that the pool has no room for would be cordoned: a storm is one, however few leave service.
    wanted = Q(state=IncidentState.PROPOSED, hold="unhealthy", opened_at__gt=since)
    last_drain = others.aggregate(at=Max("drained_at"))["at"]
    busy = f"{node.operation_by} has ordered {node.operation} for the machine." if node.operation else ""
    drain = Drain.objects.filter(node=node, state__in=UNDER_WAY).exclude(by=BY).first()
    if drain is not None:
        busy = f"{drain.by} drains the machine: {drain.reason}"
    return GuardFacts(
        now=now,
        action=RemediationAction(row.action),
        fault=row.fault,
        severity=row.severity,
        by_itself=lead is not None and lead.outcome == FindingOutcome.ACT,
        # Whoever ordered a drill that acts has approved what it does.
        is_approved=row.is_approved or (drill is not None and drill.acts),
        since_asked=now - row.asked_at if row.asked_at else timedelta(0),
        is_on=held.mode == "act" if drill is None else drill.acts,
        is_drill=drill is not None,
        kill_switch=f"{held.kill_switch_by}: {held.kill_switch_reason}" if held.is_stopped else "",
        held_by_person=f"{row.held_by}: {row.held_reason}" if row.held_by else "",
        dry_cluster=drill is None and node.cluster.name in held.dry_clusters,
        fault_age=now - row.first_at,
        remediations=own.filter(opened_at__gte=now - timedelta(seconds=limits.lemon_seconds)).count(),
        since_last=now - last_end if last_end else None,
        other_remediation=busy,
        windows=windows_of(held.windows),
        pool=PoolFacts(
            name=row.pool,
            machines=max(1, len(machines)),
            out_of_service=len(bad - {row.node_id}),
            cordoned_lately=others.filter(wanted | Q(quarantined_at__gt=since)).count(),
            repairs_lately=others.filter(act_began_at__gt=now - timedelta(hours=1)).count(),
            slots_taken=HealingSlot.objects.filter(pool=pool).exclude(incident=row).count(),
            since_drain=now - last_drain if last_drain else None,
            breaker=pool.breaker_reason if pool.breaker_opened_at else "",
        ),
        domain=_domain_facts(row),
    )


def domain_machines(node: Node) -> list[Node]:
    """Return the machines of the node's rack or NVLink domain, itself included; empty: no known domain."""
    name = domain_of(node.labels)
    if not name:
        return []
    rows = Node.objects.filter(cluster_id=node.cluster_id).exclude(state=NodeState.GONE)
    found = rows.select_related("cluster__team").order_by("name")
    return [one for one in found if domain_of(one.labels) == name]


def domain_incidents(incident: Incident) -> list[Incident]:
    """Return the domain's incidents that the guard of domains holds until somebody approves."""
    rows = Incident.objects.filter(node__in=domain_machines(incident.node), hold="domain")
    found = rows.exclude(state__in=ENDED_INCIDENTS).select_related("node__cluster__team").order_by("pk")
    return [one for one in found if one.waits_for_approval]


def _domain_facts(row: Incident) -> DomainFacts:
    name = domain_of(row.node.labels)
    if not name:
        return DomainFacts()
    there = groups_of(row.node.cluster_id).domains.get(name, frozenset())
    ended = (*ENDED_INCIDENTS, IncidentState.WATCHING)
    bad = Incident.objects.filter(node_id__in=there, drill=None).exclude(state__in=ended).count()
    return DomainFacts(name=name, machines=len(there), bad=bad)
