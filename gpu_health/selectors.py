"""Named reads: the rules in force, findings, and what rules would have done."""

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Sum
from django.utils.translation import gettext as _

from accounts.states import Right
from clusters.models import Gpu, Node
from common.actor import Actor
from gpu_health.errors import (
    CheckMissing,
    DrillMissing,
    FindingMissing,
    IncidentMissing,
    PoolMissing,
)
from gpu_health.healing.guards import GUARDS
from gpu_health.models import Drill, Finding, GpuCheck, GpuCount, HealingPool, Incident
from gpu_health.rulebook import MEMORY as MEMORY
from gpu_health.rulebook import RuleInForce as RuleInForce
from gpu_health.rulebook import RuleTrial as RuleTrial
from gpu_health.rulebook import node_state as node_state
from gpu_health.rulebook import preset_of as preset_of
from gpu_health.rulebook import presets_in_force as presets_in_force
from gpu_health.rulebook import readings_of as readings_of
from gpu_health.rulebook import rule_book as rule_book
from gpu_health.rulebook import rule_in_force as rule_in_force
from gpu_health.rulebook import rules as rules
from gpu_health.rulebook import rules_in_force as rules_in_force
from gpu_health.rulebook import try_preset as try_preset
from gpu_health.rulebook import try_rule as try_rule
from gpu_health.states import ENDED_INCIDENTS, FindingSeverity, FindingState, IncidentState


def findings(actor: Actor) -> QuerySet[Finding]:
    return Finding.objects.for_actor(actor).select_related("node__cluster")


def finding(actor: Actor, pk: int) -> Finding:
    """Raises FindingMissing."""
    found = findings(actor).filter(pk=pk).first()
    if found is None:
        raise FindingMissing(_("There is no finding %(pk)s.") % {"pk": pk})
    return found


def incidents(actor: Actor) -> QuerySet[Incident]:
    return Incident.objects.for_actor(actor).select_related("node__cluster")


def incident(actor: Actor, pk: int) -> Incident:
    """Raises IncidentMissing."""
    found = incidents(actor).filter(pk=pk).first()
    if found is None:
        raise IncidentMissing(_("There is no incident %(pk)s.") % {"pk": pk})
    return found


def open_incidents(node_ids: Collection[int]) -> QuerySet[Incident]:
    """Open incidents of these machines, also of those that are back in service and watched."""
    rows = Incident.objects.filter(node__in=node_ids).exclude(state__in=ENDED_INCIDENTS)
    return rows.select_related("node__cluster").order_by("pk")


def out_of_service(node_ids: Collection[int], *, opened_after: datetime | None = None) -> QuerySet[Incident]:
    """Open incidents that keep one of these machines out of service; or that were opened after that moment,
    and have not been let through to quarantine yet."""
    rows = Incident.objects.filter(node__in=node_ids).exclude(
        state__in=(*ENDED_INCIDENTS, IncidentState.WATCHING)
    )
    wanted = Q(is_quarantined=True)
    if opened_after is not None:
        wanted |= Q(opened_at__gt=opened_after)
    return rows.filter(wanted).select_related("node__cluster").order_by("pk")


def waiting_for_approval(actor: Actor) -> QuerySet[Incident]:
    """Incidents that go no further until somebody approves, of machines that the actor may operate."""
    rows = Incident.objects.for_actor(actor, Right.FLEET_OPERATE).select_related("node__cluster")
    return rows.filter(asked_at__isnull=False, drill=None).exclude(
        Q(state__in=ENDED_INCIDENTS) | Q(approved_climb=F("climb"))
    )


def needing_person(actor: Actor) -> QuerySet[Incident]:
    rows = Incident.objects.for_actor(actor, Right.FLEET_OPERATE).select_related("node__cluster")
    return rows.filter(state=IncidentState.NEEDS_PERSON, drill=None)


def incidents_by_state() -> Mapping[str, int]:
    counts = {state: 0 for state in IncidentState.values if state not in ENDED_INCIDENTS}
    rows = Incident.objects.filter(drill=None).exclude(state__in=ENDED_INCIDENTS)
    for state in rows.values_list("state", flat=True):
        counts[state] += 1
    return counts


def incidents_by_guard() -> Mapping[str, int]:
    """Number of incidents that each guard holds, by its name."""
    rows = Incident.objects.filter(drill=None).exclude(Q(state__in=ENDED_INCIDENTS) | Q(hold=""))
    counts = Counter(rows.values_list("hold", flat=True))
    return {guard.name: counts[guard.name] for guard in GUARDS}


def pools() -> QuerySet[HealingPool]:
    """Return the pools in which healing has done or refused something, with the slots taken."""
    return HealingPool.objects.annotate(taken=Count("slots"))


def gpu_machines(rows: QuerySet[Node]) -> QuerySet[Node]:
    """Keep the machines that have GPUs, or must have."""
    counted = [one.node_id for one in GpuCount.objects.filter(node__in=rows) if one.expected]
    return rows.filter(Q(pk__in=counted) | Exists(Gpu.objects.filter(node=OuterRef("pk"))))


def checks(actor: Actor) -> QuerySet[GpuCheck]:
    return GpuCheck.objects.for_actor(actor).select_related("node__cluster")


def check(actor: Actor, pk: int) -> GpuCheck:
    """Raises CheckMissing."""
    found = checks(actor).filter(pk=pk).first()
    if found is None:
        raise CheckMissing(_("There is no check %(pk)s.") % {"pk": pk})
    return found


def drills(actor: Actor) -> QuerySet[Drill]:
    return Drill.objects.for_actor(actor).select_related("node__cluster")


def drill(actor: Actor, pk: int) -> Drill:
    """Raises DrillMissing."""
    found = drills(actor).filter(pk=pk).first()
    if found is None:
        raise DrillMissing(_("There is no drill %(pk)s.") % {"pk": pk})
    return found


def pools_at_work() -> QuerySet[HealingPool]:
    """Return the pools with a slot taken or an open breaker."""
    return pools().filter(Q(taken__gt=0) | Q(breaker_opened_at__isnull=False))


def pool(pk: int) -> HealingPool:
    """Raises PoolMissing."""
    found = pools().filter(pk=pk).first()
    if found is None:
        raise PoolMissing(_("There is no pool %(pk)s.") % {"pk": pk})
    return found


def open_by_severity() -> Mapping[str, int]:
    counts = dict.fromkeys(FindingSeverity.values, 0)
    rows = Finding.objects.filter(state=FindingState.OPEN, drill=None)
    for severity in rows.values_list("severity", flat=True):
        counts[severity] += 1
    return counts


def unread_lines() -> int:
    """Count the lines of open findings that name an Xid or SXid and could not be read."""
    rows = Finding.objects.filter(state=FindingState.OPEN, drill=None, fault__startswith="unread.")
    return rows.aggregate(lines=Sum("count"))["lines"] or 0
