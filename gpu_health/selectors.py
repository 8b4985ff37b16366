"""Named reads: the rules in force, findings, and what rules would have done."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Count, F, Q, QuerySet
from django.utils import timezone
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
    RuleMissing,
)
from gpu_health.judge import NodeState, Verdict, judge
from gpu_health.models import Drill, Finding, GpuCheck, HealingPool, Incident, RuleChange, StoredReading
from gpu_health.policy.presets import DEFAULT, conditions_text, preset
from gpu_health.policy.rule import Rule
from gpu_health.signals.reading import bus_id
from gpu_health.states import ENDED_INCIDENTS, FindingSeverity, FindingState, IncidentState

MEMORY = timedelta(days=30)
"""No rule looks further back."""
MOST_OF_A_NODE = 5_000
MOST_OF_ALL = 50_000


@dataclass(frozen=True, slots=True)
class RuleInForce:
    """`row` is not stored unless somebody has changed the rule."""

    rule: Rule
    original: Rule
    row: RuleChange

    @property
    def is_changed(self) -> bool:
        return self.row.pk is not None


def rules_in_force() -> list[RuleInForce]:
    changed = {row.name: row for row in RuleChange.objects.all()}
    found = []
    for original in preset(DEFAULT):
        row = changed.get(original.name)
        rule = row.rule(original) if row else original
        found.append(RuleInForce(rule, original, row or row_of(original)))
    return found


def rule_in_force(name: str) -> RuleInForce:
    """Raises RuleMissing."""
    found = next((one for one in rules_in_force() if one.rule.name == name), None)
    if found is None:
        raise RuleMissing(_("There is no rule %(name)s.") % {"name": name})
    return found


def rules() -> tuple[Rule, ...]:
    return tuple(one.rule for one in rules_in_force())


def row_of(rule: Rule) -> RuleChange:
    """Not stored."""
    return RuleChange(
        name=rule.name,
        enabled=rule.enabled,
        mode=rule.mode,
        severity=rule.severity,
        conditions=conditions_text(rule.conditions),
        ladder=[str(action) for action in rule.ladder],
        drain=rule.drain,
        verification=rule.verification,
        revision=0,
    )


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


def pools() -> QuerySet[HealingPool]:
    """Those in which healing has done or refused something, with the slots taken."""
    return HealingPool.objects.annotate(taken=Count("slots"))


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
    """With a slot taken, or an open breaker."""
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


def node_state(node: Node) -> NodeState:
    """What the cluster shows of the machine's GPUs."""
    gpus = list(Gpu.objects.filter(node=node))
    drivers = sorted({gpu.driver for gpu in gpus if gpu.driver})
    uuids = {bus: gpu.uuid for gpu in gpus if (bus := bus_id(gpu.pci_bus_id))}
    return NodeState(node=node.name, driver_version=drivers[0] if drivers else "", uuids=uuids)


def readings_of(node: Node) -> QuerySet[StoredReading]:
    """Of the last 30 days, without those of drills that are over; of very many the newest."""
    rows = StoredReading.objects.filter(node=node, at__gte=timezone.now() - MEMORY, drill__ended_at=None)
    newest = rows.order_by("-at", "-pk").values("pk")[:MOST_OF_A_NODE]
    return StoredReading.objects.filter(pk__in=list(newest.values_list("pk", flat=True))).order_by("at", "pk")


@dataclass(frozen=True, slots=True)
class Difference:
    """One fault of one device that another set of rules judges otherwise."""

    node: str
    device: str
    fault: str
    before: Verdict
    after: Verdict


@dataclass(frozen=True, slots=True)
class Trial:
    """What other rules would have made of the readings of the last 30 days."""

    readings: int
    verdicts: int
    """Of the fault that the rule is about, by the rules as they would be."""
    differences: Sequence[Difference]


def try_rule(actor: Actor, changed: Rule) -> Trial:
    """Judge the last 30 days of the machines that the actor may see, with and without the change.

    At most 50,000 readings, the newest.
    """
    now = rules()
    then = tuple(changed if rule.name == changed.name else rule for rule in now)
    visible = Node.objects.for_actor(actor)
    since = timezone.now() - MEMORY
    rows = StoredReading.objects.filter(node__in=visible, at__gte=since, drill__ended_at=None)
    concerned = rows.filter(fault=changed.fault).values_list("node", flat=True).distinct()
    count = verdicts = 0
    differences: list[Difference] = []
    for node in visible.filter(pk__in=list(concerned)).order_by("name"):
        readings = [row.reading() for row in readings_of(node)]
        count += len(readings)
        state = node_state(node)
        before, after = judge(readings, now, state), judge(readings, then, state)
        verdicts += sum(one.fault == changed.fault for one in after)
        differences += _differences(node.name, before, after)
        if count >= MOST_OF_ALL:
            break
    return Trial(count, verdicts, differences)


def _differences(node: str, before: Sequence[Verdict], after: Sequence[Verdict]) -> Iterator[Difference]:
    former = {(one.fault, one.device): one for one in before}
    for one in after:
        was = former[one.fault, one.device]
        if (was.outcome, was.ladder, was.severity, was.drain) != (
            *(one.outcome, one.ladder, one.severity, one.drain),
        ):
            yield Difference(node, one.device, one.fault, was, one)
