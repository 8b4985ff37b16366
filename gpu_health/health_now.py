"""GPU health in numbers: for Home, and for those who follow it live."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.db.models import Case, Count, IntegerField, Value, When

from clusters.models import Cluster, Node
from clusters.states import NodeState
from common.actor import Actor
from common.live.board import PUBLIC, Shard
from gpu_health import selectors
from gpu_health.incident_facts import policy
from gpu_health.models import Finding, HealingPolicy, HealingPool, Incident
from gpu_health.states import ENDED_INCIDENTS, FindingState, IncidentState

INCIDENTS_SHOWN = 6
IN_SERVICE = (IncidentState.PROPOSED, IncidentState.WATCHING)


@dataclass(frozen=True, slots=True)
class MachineStates:
    """Machines by what GPU health makes of them; each counts once."""

    healthy: int = 0
    suspect: int = 0
    """In service, with an open finding or incident."""
    out_of_service: int = 0
    """Quarantined, drained, repaired or verified."""
    needs_person: int = 0

    @property
    def total(self) -> int:
        return self.healthy + self.suspect + self.out_of_service + self.needs_person


def machine_states() -> Mapping[int, MachineStates]:
    """Return machine states by cluster, in three queries."""
    machines = dict(
        Node.objects.exclude(state=NodeState.GONE)
        .order_by()
        .values_list("cluster_id")
        .annotate(count=Count("pk"))
    )
    kinds: dict[int, tuple[int, str]] = {}
    found = Finding.objects.filter(state=FindingState.OPEN).exclude(node__state=NodeState.GONE)
    for node_id, cluster_id in found.order_by().values_list("node_id", "node__cluster_id"):
        kinds[node_id] = (cluster_id, "suspect")
    rows = Incident.objects.exclude(state__in=ENDED_INCIDENTS).exclude(node__state=NodeState.GONE)
    for node_id, cluster_id, state in rows.order_by().values_list("node_id", "node__cluster_id", "state"):
        kinds[node_id] = (cluster_id, _kind_of(state))
    counts: Counter[tuple[int, str]] = Counter(kinds.values())
    return {
        pk: MachineStates(
            total - sum(counts[pk, kind] for kind in ("suspect", "out_of_service", "needs_person")),
            counts[pk, "suspect"],
            counts[pk, "out_of_service"],
            counts[pk, "needs_person"],
        )
        for pk, total in machines.items()
    }


def _kind_of(state: str) -> str:
    if state == IncidentState.NEEDS_PERSON:
        return "needs_person"
    return "suspect" if state in IN_SERVICE else "out_of_service"


def live_values() -> dict[Shard, dict[str, Any]]:
    """Return the topic `gpu-health` by team: machines and incidents go to whoever may see the cluster."""
    held = policy()
    parts: dict[Shard, dict[str, Any]] = {
        PUBLIC: {
            "healing.mode": held.mode,
            "healing.stopped": held.is_stopped,
            "healing.breakers_open": HealingPool.objects.filter(breaker_opened_at__isnull=False).count(),
        }
    }
    states = machine_states()
    for pk, name, team_id in Cluster.objects.present().values_list("pk", "name", "team_id"):
        now = states.get(pk, MachineStates())
        parts.setdefault(team_id or PUBLIC, {}).update(
            {
                f"cluster.{name}.healthy": now.healthy,
                f"cluster.{name}.suspect": now.suspect,
                f"cluster.{name}.out_of_service": now.out_of_service,
                f"cluster.{name}.needs_person": now.needs_person,
            }
        )
    for one in Incident.objects.exclude(state__in=ENDED_INCIDENTS).select_related("node__cluster"):
        path = f"incident.{one.pk}"
        parts.setdefault(one.node.cluster.team_id or PUBLIC, {}).update(
            {
                f"{path}.node": one.node.name,
                f"{path}.fault": one.fault,
                f"{path}.state": one.state,
                f"{path}.action": one.action,
                f"{path}.hold": one.hold,
                f"{path}.waits_for_approval": one.waits_for_approval,
            }
        )
    return parts


def total_of(parts: Iterable[MachineStates]) -> MachineStates:
    known = list(parts)
    return MachineStates(
        sum(one.healthy for one in known),
        sum(one.suspect for one in known),
        sum(one.out_of_service for one in known),
        sum(one.needs_person for one in known),
    )


class HealthCard:
    """The section of Home."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    @cached_property
    def machines(self) -> MachineStates:
        """The machine states of all clusters that the reader may see."""
        visible = set(Cluster.objects.for_actor(self._actor).values_list("pk", flat=True))
        return total_of(one for pk, one in machine_states().items() if pk in visible)

    @cached_property
    def incidents(self) -> list[Incident]:
        """Open ones, those that need a person first."""
        urgent = Case(
            When(state=IncidentState.NEEDS_PERSON, then=Value(0)),
            default=Value(1),
            output_field=IntegerField(),
        )
        rows = selectors.incidents(self._actor).exclude(state__in=ENDED_INCIDENTS)
        return list(rows.order_by(urgent, "-opened_at")[:INCIDENTS_SHOWN])

    @cached_property
    def open(self) -> int:
        return selectors.incidents(self._actor).exclude(state__in=ENDED_INCIDENTS).count()

    @cached_property
    def waiting(self) -> int:
        return selectors.waiting_for_approval(self._actor).count()

    @cached_property
    def policy(self) -> HealingPolicy:
        return policy()

    @cached_property
    def breakers(self) -> list[HealingPool]:
        return list(HealingPool.objects.filter(breaker_opened_at__isnull=False))
