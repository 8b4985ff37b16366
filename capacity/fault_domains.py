"""Whose models share a card by MPS: one client that faults ends the others, so that they are of one team."""

from collections.abc import Iterable, Sequence

from django.utils.translation import gettext as _

from capacity.errors import InvalidPool
from capacity.ledger import PoolMachineCards
from capacity.models import Pool
from clusters.models import Deployment, Worker
from clusters.states import DeploymentState


def refuse_other_teams(pool: Pool, machine: PoolMachineCards, card: int | None, names: Sequence[str]) -> None:
    """Refuse services, workloads and workers of teams other than the pool's. Raises InvalidPool."""
    cards: Iterable[int] = range(machine.cards) if card is None else (card,)
    for number in cards:
        holder = machine.holders.get(number)
        if holder is not None and holder.team_id != pool.team_id:
            _refuse("machine", holder, holder.team, pool)
    named = Deployment.objects.filter(service__in=names).exclude(team=pool.team)
    found = named.exclude(state=DeploymentState.REMOVED).select_related("team").first()
    if found is not None:
        _refuse("needs", found.service, found.team, pool)
    if machine.is_simulated:
        return
    workers = Worker.objects.filter(node__cluster=pool.cluster, node__name=machine.name)
    other = workers.exclude(deployment__team=pool.team).exclude(deployment__device="cpu")
    worker = other.select_related("deployment__team").first()
    if worker is not None:
        _refuse("machine", worker.name, worker.deployment.team, pool)


def _refuse(field: str, who: object, team: object, pool: Pool) -> None:
    one = _(
        "MPS is one fault domain, which one team alone may share: %(who)s is of %(team)s, not of %(own)s."
    )
    raise InvalidPool(fields={field: [one % {"who": who, "team": team, "own": pool.team}]})
