"""The rules in force: a preset for the installation or for a cluster, with what people have changed or added;
and what other rules would have done."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Any

from django.db.models import QuerySet, Window
from django.db.models.fields.json import KT
from django.db.models.functions import RowNumber, TruncDay
from django.utils.translation import gettext as _

from clusters.models import Cluster, Gpu, Node
from common import clock
from common.actor import Actor
from gpu_health.errors import RuleMissing
from gpu_health.incident_facts import policy
from gpu_health.judge import FaultVerdict, JudgedNode, judge
from gpu_health.models import RuleChange, StoredReading
from gpu_health.policy.presets import PRESETS, complete, conditions_text, preset
from gpu_health.policy.rule import FaultRule
from gpu_health.signals.reading import bus_id

MEMORY = timedelta(days=30)
"""No rule looks further back."""
MOST_OF_A_NODE = 5_000
"""Machines with more readings are judged by the newest of each fault, device and process a day."""
MOST_OF_A_DAY = 20
"""Of one fault of one device and process, unless a rule counts further."""
MOST_OF_ALL = 50_000
MOST_DIFFERENCES = 500


@dataclass(frozen=True, slots=True)
class RuleInForce:
    """`row` is not stored unless somebody has changed the rule."""

    rule: FaultRule
    original: FaultRule
    row: RuleChange

    @property
    def is_changed(self) -> bool:
        return self.row.pk is not None and not self.is_own

    @property
    def is_own(self) -> bool:
        """Somebody of this installation has added it."""
        return self.rule.is_own


def preset_of(cluster: Cluster | None = None) -> str:
    """Return the preset of the cluster, else of the installation."""
    held = policy()
    return str(held.cluster_presets.get(cluster.name, held.preset) if cluster else held.preset)


def presets_in_force() -> list[str]:
    """The installation's first."""
    held = policy()
    return list(dict.fromkeys([held.preset, *sorted(held.cluster_presets.values())]))


def rules_in_force(name: str | None = None) -> list[RuleInForce]:
    """Return the rules of that preset, else of the installation's; the installation's own come first."""
    rows = {row.name: row for row in RuleChange.objects.all()}
    own = [RuleInForce(row.own_rule(), row.own_rule(), row) for row in rows.values() if row.fault]
    found = []
    for original in complete(name or preset_of()):
        row = rows.get(original.name)
        rule = row.rule(original) if row else original
        found.append(RuleInForce(rule, original, row or row_of(original)))
    return [*own, *found]


def rule_in_force(name: str) -> RuleInForce:
    """Return a rule of any preset that is used somewhere. Raises RuleMissing."""
    for used in presets_in_force():
        found = next((one for one in rules_in_force(used) if one.rule.name == name), None)
        if found is not None:
            return found
    raise RuleMissing(_("There is no rule %(name)s.") % {"name": name})


def rules(cluster: Cluster | None = None) -> tuple[FaultRule, ...]:
    """Rules by which machines of the cluster are judged; without one, those of the installation."""
    return rule_book(cluster).rules


@dataclass(frozen=True, slots=True)
class RuleBook:
    """Rules, and 16 characters that are others for other rules."""

    digest: str
    rules: tuple[FaultRule, ...]


def rule_book(cluster: Cluster | None = None) -> RuleBook:
    """Rules by which machines of the cluster are judged; without one, those of the installation."""
    name = preset_of(cluster)
    changes = tuple(RuleChange.objects.order_by("name").values_list("name", "revision", "changed_at"))
    if (known := _books.get((name, changes))) is not None:
        return known
    rules = tuple(one.rule for one in rules_in_force(name))
    text = "\n".join(map(repr, rules))
    book = RuleBook(hashlib.sha256(text.encode()).hexdigest()[:16], rules)
    if len(_books) >= MOST_BOOKS:
        _books.clear()
    _books[(name, changes)] = book
    return book


MOST_BOOKS = 16
_books: dict[tuple[str, tuple[Any, ...]], RuleBook] = {}
"""By preset and changes that are stored: to put one together takes milliseconds, and each reading asks."""


@dataclass(frozen=True, slots=True)
class PresetStatus:
    name: str
    title: str
    own: int
    """Rules that its source states."""
    rules: int
    """With Slipway's, for faults that it does not speak of."""
    acting: int
    """Of these, those that would touch the machine."""
    is_used: bool
    """By the installation."""
    clusters: Sequence[str]
    """That use it instead."""


def presets_now() -> list[PresetStatus]:
    held = policy()
    return [
        PresetStatus(
            name=one.name,
            title=one.title,
            own=len(preset(one.name)),
            rules=len(complete(one.name)),
            acting=sum(rule.acts_on_node for rule in complete(one.name)),
            is_used=one.name == held.preset,
            clusters=[name for name, used in sorted(held.cluster_presets.items()) if used == one.name],
        )
        for one in PRESETS
    ]


def row_of(rule: FaultRule) -> RuleChange:
    """Return an unstored row with the fields of the rule."""
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


def node_state(node: Node, *, boot: str = "") -> JudgedNode:
    """Return what the cluster shows of the machine and its GPUs. `boot`: its present boot, if known."""
    gpus = list(Gpu.objects.filter(node=node))
    drivers = sorted({gpu.driver for gpu in gpus if gpu.driver})
    uuids = {bus: gpu.uuid for gpu in gpus if (bus := bus_id(gpu.pci_bus_id))}
    driver = drivers[0] if drivers else ""
    return JudgedNode(node=node.name, driver_version=driver, uuids=uuids, boot=boot or node.boot_id)


def readings_of(node: Node) -> QuerySet[StoredReading]:
    """Return the readings of the last 30 days, without those of drills that are over. Of very many, keep
    those that rules need, so that constant repeats push out nothing else.
    """
    rows = StoredReading.objects.filter(node=node, at__gte=clock.now() - MEMORY, drill__ended_at=None)
    if not rows.order_by("-at", "-pk")[MOST_OF_A_NODE:].exists():
        return rows.order_by("at", "pk")
    counts = max((rule.conditions.count for rule in rule_book(node.cluster).rules if rule.enabled), default=1)
    place = Window(
        RowNumber(),
        partition_by=[
            *("source", "fault", "kind", "gpu_bus_id", "gpu_uuid", TruncDay("at", tzinfo=UTC)),
            KT("details__process"),
        ],
        order_by=["-at", "-pk"],
    )
    newest = rows.order_by().annotate(place=place).filter(place__lte=max(MOST_OF_A_DAY, counts))
    return StoredReading.objects.filter(pk__in=newest.values("pk")).order_by("at", "pk")


@dataclass(frozen=True, slots=True)
class VerdictDifference:
    """A fault of one device that another set of rules judges otherwise."""

    node: str
    device: str
    fault: str
    before: FaultVerdict
    after: FaultVerdict


@dataclass(frozen=True, slots=True)
class RuleTrial:
    """The result of other rules over the readings of the last 30 days."""

    readings: int
    verdicts: int
    """By the rules as they would be; of one rule, on its fault."""
    differences: Sequence[VerdictDifference]


def try_rule(actor: Actor, changed: FaultRule) -> RuleTrial:
    """Judge the last 30 days of the machines that the actor may see, with and without the change.

    At most 50,000 readings, the newest.
    """

    def with_change(now: Sequence[FaultRule]) -> tuple[FaultRule, ...]:
        if changed.is_own and all(rule.name != changed.name for rule in now):
            return (changed, *now)
        return tuple(changed if rule.name == changed.name else rule for rule in now)

    return _tried(
        actor,
        {used: with_change(_plain(used)) for used in presets_in_force()},
        rows=StoredReading.objects.filter(fault=changed.fault),
        fault=changed.fault,
    )


def try_preset(actor: Actor, name: str, cluster: Cluster | None = None) -> RuleTrial:
    """Try the preset on the readings of that cluster; without one, wherever the installation's is used."""
    then = _plain(name)
    rows = StoredReading.objects.all()
    if cluster is not None:
        rows = rows.filter(node__cluster=cluster)
        return _tried(actor, {preset_of(cluster): then}, rows=rows)
    held = policy()
    rows = rows.exclude(node__cluster__name__in=list(held.cluster_presets))
    return _tried(actor, {held.preset: then}, rows=rows)


def _plain(name: str) -> tuple[FaultRule, ...]:
    return tuple(one.rule for one in rules_in_force(name))


def _tried(
    actor: Actor,
    then: Mapping[str, Sequence[FaultRule]],
    *,
    rows: QuerySet[StoredReading],
    fault: str = "",
) -> RuleTrial:
    """`then`: the rules as they would be, by the preset that is used now."""
    now = {used: _plain(used) for used in then}
    visible = Node.objects.for_actor(actor).select_related("cluster")
    recent = rows.filter(node__in=visible, at__gte=clock.now() - MEMORY, drill__ended_at=None)
    concerned = recent.values_list("node", flat=True)
    count = verdicts = 0
    differences: list[VerdictDifference] = []
    for node in visible.filter(pk__in=set(concerned.order_by())).order_by("name"):
        used = preset_of(node.cluster)
        readings = [row.reading() for row in readings_of(node)]
        count += len(readings)
        state = node_state(node)
        before, after = judge(readings, now[used], state), judge(readings, then[used], state)
        verdicts += sum(not fault or one.fault == fault for one in after)
        differences += _differences(node.name, before, after)
        if count >= MOST_OF_ALL or len(differences) >= MOST_DIFFERENCES:
            break
    return RuleTrial(count, verdicts, differences[:MOST_DIFFERENCES])


def _differences(
    node: str, before: Sequence[FaultVerdict], after: Sequence[FaultVerdict]
) -> Iterator[VerdictDifference]:
    former = {(one.fault, one.device): one for one in before}
    for one in after:
        was = former[one.fault, one.device]
        if (was.outcome, was.ladder, was.severity, was.drain) != (
            *(one.outcome, one.ladder, one.severity, one.drain),
        ):
            yield VerdictDifference(node, one.device, one.fault, was, one)
