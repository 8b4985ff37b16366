"""Machines of pools whose services share them whole: who has which, and the plan that follows. Nothing is
written.

A label of the machine says which service's workers may stand there; their pods select it, so that the
scheduler places them. The ledger has all cards of such a machine under the service.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from capacity.ledger import gpus_of, machines_of
from capacity.model_files import cached_services
from capacity.models import Allocation, Pool
from capacity.planning.moves import MoveGuards, MovePlan, PoolMachine, plan_moves
from clusters.fleet import DeploymentSnapshot
from clusters.models import Deployment, Node
from clusters.states import NodeState

SERVICE_LABEL = "slipway.io/service"
"""Label of a machine: the service that has it. Workers of services in such pools select it."""


@dataclass(frozen=True)
class ServiceMachine:
    """A machine of a pool. holder: the service that has it; empty: nobody. since: when it got it, in seconds
    since 1970. closed: code of why nothing is placed there. kind: model of its GPUs."""

    name: str
    node: Node
    cards: int
    holder: str
    since: float
    closed: str
    kind: str = ""


def service_machines(pool: Pool) -> list[ServiceMachine]:
    """Return the pool's machines; the ledger says who has them, or their labels before it does."""
    rows = Allocation.objects.filter(cluster=pool.cluster, worker="").exclude(service="")
    held = {row.machine: row for row in rows}
    nodes = {
        node.name: node for node in Node.objects.filter(cluster=pool.cluster).exclude(state=NodeState.GONE)
    }
    members = set(pool.memberships.values_list("service", flat=True))
    found = []
    for one in machines_of(pool):
        row, label = held.get(one.name), nodes[one.name].labels.get(SERVICE_LABEL, "")
        holder = row.service if row else label if label in members else ""
        since = row.since.timestamp() if row else 0.0
        found.append(
            ServiceMachine(one.name, nodes[one.name], one.cards, holder, since, one.closed, one.model)
        )
    return found


def workers_per_machine(deployment: Deployment | None, machines: Iterable[ServiceMachine]) -> int:
    """Return how many workers of it one machine holds by its cards; 0: none, or it needs no cards."""
    fewest = min((machine.cards for machine in machines), default=0)
    gpus = gpus_of(deployment) if deployment else 0
    return fewest // gpus if gpus else 0


def selects_machines(deployment: Deployment) -> bool:
    """Whether its pods stand on machines of its service alone."""
    selector = deployment.pod.get("node_selector") or {}
    return bool(selector.get(SERVICE_LABEL) == deployment.service)


@dataclass(frozen=True)
class WholeMachines:
    """Machines of a pool as its services have them. workers: by service, how many one machine holds. held:
    codes of why a service can neither give nor get any."""

    machines: tuple[ServiceMachine, ...]
    workers: Mapping[str, int]
    held: Mapping[str, str]

    def of(self, service: str) -> int:
        return sum(machine.holder == service for machine in self.machines)

    def total(self, services: Collection[str]) -> int:
        """Return the machines that these services have, and those that they could get."""
        return sum(
            machine.holder in services or (not machine.holder and not machine.closed)
            for machine in self.machines
        )


def whole_machines(pool: Pool, stable: Mapping[str, str]) -> WholeMachines:
    """Observe the machines of the pool. stable: names of deployments by service."""
    machines = tuple(service_machines(pool))
    rows = {row.name: row for row in Deployment.objects.filter(name__in=stable.values())}
    workers, held = {}, {}
    for service, name in stable.items():
        row = rows.get(name)
        workers[service] = workers_per_machine(row, machines)
        if row is not None and not selects_machines(row):
            held[service] = "no_selector"
        elif row is not None and not workers[service]:
            held[service] = "no_cards"
    return WholeMachines(machines, {name: max(1, count) for name, count in workers.items()}, held)


def plan_machines(
    pool: Pool,
    machines: Iterable[ServiceMachine],
    granted: Mapping[str, int],
    living: Mapping[str, DeploymentSnapshot],
    held: Mapping[str, str],
    now: datetime,
) -> MovePlan:
    """Plan moves of whole machines. granted: machines by service. living: deployments by service."""
    workers: dict[int, list[Any]] = {}
    for deployment in living.values():
        for worker in deployment.workers:
            if worker.row.node_id is not None:
                workers.setdefault(worker.row.node_id, []).append(worker)
    chosen = list(machines)
    cached = cached_services(
        [one.node for one in chosen], {name: one.row.name for name, one in living.items()}
    )
    found = [
        PoolMachine(
            machine.name,
            machine.holder or None,
            since=machine.since,
            in_flight=sum(worker.in_flight for worker in workers.get(machine.node.pk, ())),
            cached=cached.get(machine.node.pk, frozenset()),
            kept_by=machine.closed or held.get(machine.holder, ""),
        )
        for machine in chosen
    ]
    guards = MoveGuards(pool.budget, pool.dwell_seconds, pool.parallel_starts)
    return plan_moves(found, granted, now.timestamp(), guards)


def machine_changes(plan: MovePlan) -> dict[str, dict[str, list[str]]]:
    """Return by service the names of the machines that it `gives` and `gets`."""
    found: dict[str, dict[str, list[str]]] = {}
    for move in plan.moves:
        for service, what in ((move.source, "gives"), (move.target, "gets")):
            if service:
                found.setdefault(service, {"gives": [], "gets": []})[what].append(move.machine)
    return found
