"""Checks of a pool's machines and limits: whatever contradicts itself or another pool is refused by field."""

import re
from typing import Any

from django.db.models import Q
from django.utils.translation import gettext as _

from capacity.errors import InvalidPool
from capacity.ledger import limits_of, machine_names, machines_of
from capacity.models import MOST_CARDS, Allocation, Pool
from capacity.planning.errors import PlanningError
from capacity.planning.lending import LendingMachine, check_pools
from capacity.states import HOLDING, Granularity, PoolKind, WorkloadAdmission
from clusters.backends.kinds import abilities_of

MOST_MACHINES = 1_000
_MACHINE = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
CARD_UNITS = (Granularity.MACHINE, Granularity.CARD)
_FIELDS = {"machine", "cards", "model", "rack"}


def check_machines(pool: Pool) -> None:
    """Raises InvalidPool."""
    units = (Granularity.WORKER, Granularity.MACHINE) if pool.kind == PoolKind.SERVING else CARD_UNITS
    if pool.granularity not in units:
        refused = _("Serving pools hand out workers or whole machines, all others machines or cards.")
        _refuse("granularity", refused)
    if pool.kind == PoolKind.SERVING and pool.granularity == Granularity.MACHINE:
        if abilities_of(pool.cluster.kind).runs_on_host:
            _refuse("granularity", _("This cluster is one machine: its services share workers."))
        for field in ("inventory", "guarantee", "lending_limit", "borrowing_limit"):
            if getattr(pool, field):
                _refuse(field, _("Only pools that hand out cards to workloads have it."))
        _check_selector(pool.selector)
        if not pool.selector:
            _refuse("selector", _("Give labels of its machines."))
        _check_no_other_owner(pool)
        return
    if pool.kind == PoolKind.SERVING:
        if pool.admission != WorkloadAdmission.SLIPWAY:
            _refuse("admission", _("Only pools of machines or cards have it."))
        for field in ("selector", "inventory", "guarantee", "lending_limit", "borrowing_limit"):
            if getattr(pool, field):
                _refuse(field, _("Only pools of machines or cards have it."))
        return
    _check_admission(pool)
    _check_selector(pool.selector)
    _check_inventory(pool)
    if not pool.selector and not pool.inventory:
        _refuse("selector", _("Give labels of its machines, or declare its machines."))
    cards = sum(machine.cards for machine in machines_of(pool))
    rooms = [LendingMachine("all", str(pool.pk), cards, ())]
    try:
        check_pools(rooms, [limits_of(pool, cards)])
    except PlanningError:
        over = _("The pool is guaranteed %(guarantee)s cards; its machines have %(cards)s.")
        _refuse("guarantee", over % {"guarantee": pool.guarantee, "cards": cards})
    _check_held(pool)
    _check_no_other_owner(pool)


def _check_no_other_owner(pool: Pool) -> None:
    own = machine_names(pool)
    field = "inventory" if pool.inventory else "selector"
    for other in Pool.objects.filter(cluster=pool.cluster).exclude(pk=pool.pk):
        if twice := sorted(set(own) & set(machine_names(other))):
            said = _("%(machine)s is a machine of the pool %(pool)s.")
            _refuse(field, said % {"machine": twice[0], "pool": other})


def _check_admission(pool: Pool) -> None:
    """Kueue admits workloads in Kubernetes alone."""
    if pool.admission == WorkloadAdmission.KUEUE and abilities_of(pool.cluster.kind).runs_on_host:
        _refuse("admission", _("Only in Kubernetes clusters can Kueue admit workloads."))
    if pool.admission == WorkloadAdmission.KUEUE and pool.inventory:
        _refuse("inventory", _("Kueue knows machines by their labels alone."))


def check_nobody_waits(pool: Pool) -> None:
    """Who admits workloads changes only while none has cards, neither in the ledger nor in a queue.

    Raises InvalidPool.
    """
    lent = Allocation.objects.filter(lender=pool, service="").exists()
    if lent or pool.workloads.filter(state__in=HOLDING).exists():
        _refuse("admission", _("Its workloads have cards, or wait for them in Kueue: suspend them first."))


def _check_held(pool: Pool) -> None:
    """Cards that a workload holds stay in their pool."""
    if pool.pk is None:
        return
    own = {machine.name: machine.cards for machine in machines_of(pool)}
    is_owner = Q(lender=pool) | Q(lender=None, workload__pool=pool)
    for held in Allocation.objects.filter(is_owner, service="").select_related("workload"):
        if held.card >= own.get(held.machine, 0):
            said = _("%(workload)s holds %(card)s: suspend it first.")
            _refuse(
                "inventory" if pool.inventory else "selector",
                said % {"workload": held.workload, "card": held},
            )


def _check_selector(selector: Any) -> None:
    are_texts = isinstance(selector, dict) and all(
        isinstance(text, str) and 0 < len(text) <= 253 for pair in selector.items() for text in pair
    )
    if not are_texts:
        _refuse("selector", _('Give labels as an object of texts, such as {"pool": "training"}.'))


def _check_inventory(pool: Pool) -> None:
    declared = pool.inventory
    if not isinstance(declared, list) or len(declared) > MOST_MACHINES:
        _refuse("inventory", _("Give a list of machines."))
    if declared and not abilities_of(pool.cluster.kind).runs_on_host:
        _refuse("inventory", _("Machines of this cluster are seen, not declared: give their labels."))
    names: set[str] = set()
    for one in declared:
        if not isinstance(one, dict) or not {"machine", "cards"} <= one.keys() <= _FIELDS:
            _refuse("inventory", _("Each machine has machine and cards, and may have model and rack."))
        name, cards = one["machine"], one["cards"]
        if not isinstance(name, str) or not _MACHINE.fullmatch(name):
            said = _("%(name)s cannot name a machine: lower-case letters, digits, dots and hyphens.")
            _refuse("inventory", said % {"name": name})
        if name in names:
            _refuse("inventory", _("%(name)s stands twice.") % {"name": name})
        if isinstance(cards, bool) or not isinstance(cards, int) or not 1 <= cards <= MOST_CARDS:
            said = _("%(name)s has %(cards)s cards: give a number from 1 to %(most)s.")
            _refuse("inventory", said % {"name": name, "cards": cards, "most": MOST_CARDS})
        if not all(isinstance(one.get(key, ""), str) for key in ("model", "rack")):
            _refuse("inventory", _("Model and rack are texts."))
        names.add(name)


def _refuse(field: str, why: str) -> None:
    raise InvalidPool(fields={field: [why]})
