"""Every write of the ledger for services: whole machines that they have, cards that their workers hold."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q

from capacity.ledger import PoolMachineCards, gpus_of_workers
from capacity.machines import SERVICE_LABEL, service_machines
from capacity.models import Allocation, Pool
from capacity.states import RUNNING


def record_machines(pool: Pool, now: datetime) -> None:
    """Enter machines whose label names a service of the pool; take out those whose label was changed since.

    While a plan of the pool is under way, it alone writes.
    """
    if pool.plans.filter(state__in=RUNNING).exists():
        return
    members = set(pool.memberships.values_list("service", flat=True))
    machines = service_machines(pool)
    there = [machine.name for machine in machines]
    Allocation.objects.filter(lender=pool, worker="").exclude(service="").exclude(machine__in=there).delete()
    for machine in machines:
        label = machine.node.labels.get(SERVICE_LABEL, "")
        wanted = label if label in members else ""
        rows = _whole(pool, machine.name)
        is_so = rows.filter(service=wanted).count() == machine.cards if wanted else not rows.exists()
        if not is_so:
            with transaction.atomic():
                rows.delete()
                _enter(pool, machine.name, machine.cards, wanted, now)


def hand_over(pool: Pool, changes: Iterable[Mapping[str, Any]], now: datetime) -> None:
    """Machines that were drained go from those that give them to those that get them; for inside a
    transaction."""
    cards = {machine.name: machine.cards for machine in service_machines(pool)}
    for change in changes:
        _whole(pool, *change["gives"]).filter(service=change["service"]).delete()
    for change in changes:
        for machine in change["gets"]:
            _whole(pool, machine).delete()
            _enter(pool, machine, cards.get(machine, 0), change["service"], now)


def _whole(pool: Pool, *machines: str) -> Any:
    rows = Allocation.objects.filter(cluster=pool.cluster, machine__in=machines, worker="")
    return rows.exclude(service="")


def _enter(pool: Pool, machine: str, cards: int, service: str, now: datetime) -> None:
    taken = Allocation.objects.filter(cluster=pool.cluster, machine=machine)
    free = set(range(cards)) - set(taken.values_list("card", flat=True))
    if service:
        Allocation.objects.bulk_create(
            Allocation(
                cluster=pool.cluster, machine=machine, card=card, service=service, lender=pool, since=now
            )
            for card in sorted(free)
        )


def record_workers(machines: Iterable[PoolMachineCards], now: datetime) -> None:
    """Enter the cards of workers of services that stand on machines of a pool; whoever ended leaves.

    A worker counts from the moment its pod has a machine until it is gone. Its cards have no numbers that
    the cluster would tell: it gets the lowest that nobody has.
    """
    chosen = [machine for machine in machines if not machine.is_simulated]
    if not chosen:
        return
    cluster = chosen[0].pool.cluster
    seen = gpus_of_workers(cluster, [machine.name for machine in chosen])
    there = [machine.name for machine in chosen]
    lost = Allocation.objects.filter(cluster=cluster, lender=chosen[0].pool).exclude(worker="")
    lost.exclude(machine__in=there).delete()
    rows = Allocation.objects.filter(cluster=cluster, machine__in=there)
    with transaction.atomic():
        living = Q(pk=None)
        for uid, (_service, machine, _cards) in seen.items():
            living |= Q(worker=uid, machine=machine)
        rows.exclude(worker="").exclude(living).delete()
        taken: dict[str, set[int]] = {}
        have: dict[str, int] = {}
        for row in rows:
            taken.setdefault(row.machine, set()).add(row.card)
            have[row.worker] = have.get(row.worker, 0) + 1
        size = {machine.name: machine.cards for machine in chosen}
        for uid, (service, machine, cards) in sorted(seen.items()):
            free = sorted(set(range(size[machine])) - taken.get(machine, set()))
            for card in free[: max(0, cards - have.get(uid, 0))]:
                Allocation.objects.create(
                    cluster=cluster, machine=machine, card=card, service=service, worker=uid,
                    lender=chosen[0].pool, since=now,
                )  # fmt: skip
                taken.setdefault(machine, set()).add(card)
