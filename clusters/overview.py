"""The fleet as its pages show it: machines by cluster and group, and what is in trouble. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import TextChoices
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from clusters.alerts import is_trouble, rank_of
from clusters.fleet import ClusterSnapshot, DeploymentSnapshot, FleetSnapshot, NodeSnapshot, WorkerSnapshot
from clusters.gpu_meters import GpuMeter
from clusters.machine_facts import NOTHING, NodeFacts
from clusters.states import DeploymentState, MachineGroup, NodeState, WorkerState
from common.sentences import listed

BARS_SHOWN = 16
MOST_CELLS = 500
"""Of one group of one cluster: more machines share cells, and pages stay small."""
MACHINES_ON_A_PAGE = 50
_TONES = ("", "warn", "bad")


class MapGrouping(TextChoices):
    """Property of machines by which the heat map groups them."""

    GROUP = "group", gettext_lazy("Group")
    CLUSTER = "cluster", gettext_lazy("Cluster")
    SERVICE = "service", gettext_lazy("Service")
    RACK = "rack", gettext_lazy("Rack")
    POOL = "pool", gettext_lazy("Node pool")


@dataclass(frozen=True, slots=True)
class HeatMapCell:
    """A machine in the heat map; `mark` and `tone` where its state matters more than how busy it is."""

    node: NodeSnapshot
    mark: str
    tone: str

    @property
    def busy(self) -> float | None:
        return self.node.load.busy

    @property
    def label(self) -> str:
        return f"{self.node.row.name}, {words_of(self.node)}"

    @property
    def url(self) -> str:
        return f"/fleet/nodes/{self.node.row.pk}/"

    @property
    def live_path(self) -> str:
        return f"node.{self.node.row.pk}.busy"


@dataclass(frozen=True, slots=True)
class HeatMapPage:
    """Machines that share a cell in the heat map of a group with very many."""

    nodes: Sequence[NodeSnapshot]
    cluster: str
    group: str
    """The machine group in whose list they stand; empty: in that of the whole cluster."""
    number: int
    """Number of the list's page on which the first one stands, from 1."""
    mark: str
    tone: str
    by: MapGrouping = MapGrouping.GROUP

    @property
    def live_path(self) -> str:
        """Return the paths of all of them: pages show the share of their slots at work."""
        return " ".join(f"node.{one.row.pk}.busy" for one in self.nodes)

    @property
    def busy(self) -> float | None:
        slots = sum(one.load.slots for one in self.nodes)
        return sum((one.load.busy or 0.0) * one.load.slots for one in self.nodes) / slots if slots else None

    @property
    def label(self) -> str:
        first, last, count = self.nodes[0].row.name, self.nodes[-1].row.name, len(self.nodes)
        words = ngettext("%(count)s machine, %(first)s", "%(count)s machines, %(first)s to %(last)s", count)
        words %= {"count": count, "first": first, "last": last}
        troubled = sum(bool(cell_of(one).tone) for one in self.nodes)
        return words + ", " + _("%(count)s unhealthy") % {"count": troubled} if troubled else words

    @property
    def url(self) -> str:
        by = self.by if self.by != MapGrouping.GROUP else ""
        asked = {"cluster": self.cluster, "group": self.group, "sort": "name", "page": self.number, "by": by}
        return f"/fleet/?{urlencode({name: value for name, value in asked.items() if value})}"


@dataclass(frozen=True, slots=True)
class GroupMap:
    name: str
    machines: int
    cells: Sequence[HeatMapCell | HeatMapPage]


@dataclass(frozen=True, slots=True)
class ClusterMap:
    cluster: ClusterSnapshot
    groups: Sequence[GroupMap]


@dataclass(frozen=True, slots=True)
class FleetTotals:
    machines: int
    not_ready: int
    """Those that say so, could not be read, or are gone."""
    workers: int
    ready: int
    lost: int
    stuck: int
    busy: float | None
    in_flight: int
    slots: int


@dataclass(frozen=True, slots=True)
class MachineRow:
    """A row of the table of machines."""

    node: NodeSnapshot
    cluster: str
    facts: NodeFacts = NOTHING
    gpus: Sequence[GpuMeter] = ()

    @property
    def busy_path(self) -> str:
        return f"node.{self.node.row.pk}.busy"

    @property
    def shown_workers(self) -> Sequence[WorkerSnapshot]:
        return self.node.workers[:BARS_SHOWN]

    @property
    def more_workers(self) -> int:
        return max(0, len(self.node.workers) - BARS_SHOWN)


def maps_of(
    fleet: FleetSnapshot, by: MapGrouping = MapGrouping.GROUP, places: Mapping[int, str] | None = None
) -> list[ClusterMap]:
    """`places`: of each machine, by which `MapGrouping.RACK` and `POOL` group them."""
    found = []
    for cluster in fleet.clusters:
        by_group: dict[str, list[NodeSnapshot]] = {}
        nodes_by_name = sorted(cluster.nodes, key=lambda node: node.row.name)
        for node in nodes_by_name:
            for group in _groups_of(node, by, places or {}):
                by_group.setdefault(group, []).append(node)
        order: list[str] = list(MachineGroup) if by == MapGrouping.GROUP else sorted(by_group)
        groups = [
            GroupMap(
                _name_of(group, by),
                len(nodes),
                _cells(cluster.row.name, group, nodes, nodes, by)
                if by == MapGrouping.GROUP
                else _cells(cluster.row.name, "", nodes, nodes_by_name, by),
            )
            for group in order
            if (nodes := by_group.get(group))
        ]
        found.append(ClusterMap(cluster, groups))
    return found


def _groups_of(node: NodeSnapshot, by: MapGrouping, places: Mapping[int, str]) -> Sequence[str]:
    """A machine with workers of several services stands under each of them."""
    match by:
        case MapGrouping.GROUP:
            return [node.row.group]
        case MapGrouping.CLUSTER:
            return [""]
        case MapGrouping.SERVICE:
            return sorted({one.deployment.service for one in node.workers}) or [""]
        case MapGrouping.RACK | MapGrouping.POOL:
            return [places.get(node.row.pk, "")]


def _name_of(group: str, by: MapGrouping) -> str:
    if by == MapGrouping.GROUP:
        return str(MachineGroup(group).label)
    if group:
        return group
    nameless = {
        MapGrouping.CLUSTER: _("all machines"),
        MapGrouping.SERVICE: _("without workers"),
        MapGrouping.RACK: _("rack not known"),
        MapGrouping.POOL: _("pool not known"),
    }
    return nameless[by]


def _cells(
    cluster: str,
    group: str,
    nodes: Sequence[NodeSnapshot],
    listed_nodes: Sequence[NodeSnapshot],
    by: MapGrouping,
) -> Sequence[HeatMapCell | HeatMapPage]:
    """`listed_nodes`: those among which they stand in the list of machines."""
    if len(nodes) <= MOST_CELLS:
        return [cell_of(node) for node in nodes]
    places = {node.row.pk: place for place, node in enumerate(listed_nodes)}
    found = []
    for start in range(0, len(nodes), MACHINES_ON_A_PAGE):
        some = nodes[start : start + MACHINES_ON_A_PAGE]
        number = places[some[0].row.pk] // MACHINES_ON_A_PAGE + 1
        worst = max((cell_of(one) for one in some), key=lambda cell: _TONES.index(cell.tone))
        mark = worst.mark if worst.tone else ""
        found.append(HeatMapPage(some, cluster, group, number, mark, worst.tone, by))
    return found


def cell_of(node: NodeSnapshot) -> HeatMapCell:
    if node.row.state == NodeState.GONE:
        return HeatMapCell(node, "circle-off", "warn")
    if node.row.state != NodeState.READY or node.load.lost:
        return HeatMapCell(node, "plug-connected-x", "bad")
    if node.row.is_faulty:
        return HeatMapCell(node, "virus", "bad")
    if node.load.stuck:
        return HeatMapCell(node, "alert-triangle", "bad")
    if node.agent_silent_since:
        return HeatMapCell(node, "antenna-bars-off", "warn")
    if node.row.is_cordoned:
        return HeatMapCell(node, "lock", "")
    return HeatMapCell(node, "", "")


def words_of(node: NodeSnapshot) -> str:
    """`2 of 3 workers ready, 1 lost`"""
    if node.row.state == NodeState.GONE:
        return _("gone: the cluster has no such machine any more")
    if node.row.state == NodeState.NOT_READY:
        return _("not ready")
    if node.row.state == NodeState.UNKNOWN:
        return _("unknown: it could not be read")
    load = node.load
    parts = [_("faulty")] if node.row.is_faulty else []
    if not load.workers:
        return listed([*parts, _("no workers")])
    parts += [_("%(ready)s of %(workers)s workers ready") % {"ready": load.ready, "workers": load.workers}]
    parts += [_("%(lost)s lost") % {"lost": load.lost}] if load.lost else []
    parts += [_("%(stuck)s stuck") % {"stuck": load.stuck}] if load.stuck else []
    parts += [_("agent silent")] if node.agent_silent_since else []
    parts += [_("cordoned")] if node.row.is_cordoned else []
    return listed(parts)


def totals_of(fleet: FleetSnapshot) -> FleetTotals:
    loads = [cluster.load for cluster in fleet.clusters]
    nodes = [node for cluster in fleet.clusters for node in cluster.nodes]
    slots = sum(load.slots for load in loads)
    at_work = sum((load.busy or 0.0) * load.slots for load in loads)
    return FleetTotals(
        machines=len(nodes),
        not_ready=sum(node.row.state != NodeState.READY for node in nodes),
        workers=sum(load.workers for load in loads),
        ready=sum(load.ready for load in loads),
        lost=sum(load.lost for load in loads),
        stuck=sum(load.stuck for load in loads),
        busy=at_work / slots if slots else None,
        in_flight=sum(load.in_flight for load in loads),
        slots=slots,
    )


def machines_of(fleet: FleetSnapshot, facts: Mapping[int, NodeFacts]) -> list[MachineRow]:
    """Return the machines, those in trouble first. `facts`: by machine."""
    found = [
        MachineRow(node, cluster.row.name, facts.get(node.row.pk, NOTHING))
        for cluster in fleet.clusters
        for node in cluster.nodes
    ]
    return sorted(found, key=lambda machine: not cell_of(machine.node).tone)


def in_trouble(worker: WorkerSnapshot) -> bool:
    return is_trouble(worker.alert) or worker.state == WorkerState.FAILED


def workers_of(fleet: FleetSnapshot) -> list[WorkerSnapshot]:
    """Lost and stuck ones first, then failed ones, then by name."""
    return sorted(
        fleet.workers,
        key=lambda one: (rank_of(one.alert), one.state != WorkerState.FAILED, one.row.name),
    )


def deployments_of(fleet: FleetSnapshot) -> list[DeploymentSnapshot]:
    """Failing and degraded ones first, then by name."""
    order = {DeploymentState.FAILING.value: 0, DeploymentState.DEGRADED.value: 1}
    found = [one for cluster in fleet.clusters for one in cluster.deployments]
    return sorted(found, key=lambda one: (order.get(one.row.state, 2), one.row.name))


def mentioning(workers: Iterable[WorkerSnapshot], text: str) -> list[WorkerSnapshot]:
    """Return the workers in whose name, service or version every word occurs."""
    words = text.lower().split()[:8]
    return [worker for worker in workers if all(word in _text_of(worker) for word in words)]


def _text_of(worker: WorkerSnapshot) -> str:
    return f"{worker.row.name} {worker.deployment.service} {worker.deployment.version_label}".lower()
