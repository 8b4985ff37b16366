"""Writes of layouts: a card is divided by what is to run on it, and made whole again."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require, require_for_owner
from accounts.states import Right
from capacity.claimed_cards import place_by_claims
from capacity.errors import CapacityStopped, InvalidPool, PlanNotOpen
from capacity.fault_domains import refuse_other_teams
from capacity.ledger import PoolMachineCards, ledger_of
from capacity.models import CapacityStop, CardLayout, Pool
from capacity.needs import MEASURED_DAYS, slice_needs
from capacity.planning.cards import SliceNeed, fill, geometry_of, layout
from capacity.planning.errors import PlanningError
from capacity.planning.mps import PROFILE, MpsShare, equal_shares, memory_of, shares
from capacity.states import CardSharing, LayoutState, PoolKind
from clusters.backends.node_operations import MIG_CONFIG, WHOLE_CARDS
from clusters.models import Node
from common import audit, clock
from common.actor import Actor
from common.live.touch import touch

MOST_INSTANCES = 7
"""MIG instances of one card."""


def set_layout(
    pool: Pool,
    *,
    actor: Actor,
    machine: str,
    needs: Iterable[Mapping[str, Any]] = (),
    card: int | None = None,
    sharing: str = CardSharing.MIG,
    drain: bool = False,
    dry_run: bool = False,
    reason: str = "",
    days: int = MEASURED_DAYS,
) -> CardLayout:
    """Divide a card of a declared machine, or all cards of a machine of a cluster, for `{name, memory_mib,
    share}` of each need; without needs make them whole. Figures that are left out are those measured of the
    service of that name in so many days. One team alone shares a card by MPS. `dry_run`: nothing is saved.

    Raises NotAllowed, InvalidPool, CapacityStopped, PlanNotOpen.
    """
    require(actor, Right.CAPACITY_WRITE if dry_run else Right.CAPACITY_APPLY, pool.team)
    found = _machine(pool, machine)
    row = CardLayout(
        pool=pool,
        machine=machine,
        card=card,
        sharing=sharing,
        drains=drain,
        reason=reason,
        decided_by=actor.name,
        next_at=clock.now(),
    )
    try:
        wanted = slice_needs(needs, actor, days=days)
        if sharing == CardSharing.MIG and len(wanted) > MOST_INSTANCES:
            raise PlanningError("needs", f"One card has at most {MOST_INSTANCES} instances.")
        row.model = found.model if sharing == CardSharing.MPS else geometry_of(found.model)
        if sharing == CardSharing.MPS:
            refuse_other_teams(pool, found, card, [need.name for need in wanted])
        if found.claimable:
            place_by_claims(row, found, wanted)
        elif found.is_simulated:
            _place_on_card(row, found, wanted)
        else:
            _place_on_machine(row, found, wanted)
    except PlanningError as error:
        field = error.field if error.field in ("needs", "machine") else "needs"
        raise InvalidPool(fields={field: [str(error)]}) from None
    if not drain and not row.is_by_claims:
        _refuse_in_use(row, found)
    return row if dry_run else _begin(row, actor)


def undo_layout(row: CardLayout, *, actor: Actor, reason: str = "") -> CardLayout:
    """Give the card, or the machine, the layout that it had before. Raises as `set_layout` does."""
    require(actor, Right.CAPACITY_APPLY, row.pool.team)
    newer = CardLayout.objects.filter(pool=row.pool, machine=row.machine, card=row.card, pk__gt=row.pk)
    if row.state != LayoutState.APPLIED or newer.filter(state=LayoutState.APPLIED).exists():
        raise PlanNotOpen(_("Only the layout that is applied now can be undone."))
    back = CardLayout(
        pool=row.pool,
        machine=row.machine,
        card=row.card,
        sharing=row.sharing,
        model=row.model,
        instances=row.before,
        before=row.instances,
        config=row.config_before,
        config_before=row.config,
        drains=row.drains,
        undoes=row,
        reason=reason,
        decided_by=actor.name,
        next_at=clock.now(),
    )
    found = _machine(row.pool, row.machine)
    back.was_cordoned = _is_cordoned(back) or row.is_by_claims
    if row.is_by_claims:
        back.state = LayoutState.APPLYING
    elif not row.drains:
        _refuse_in_use(back, found)
    return _begin(back, actor)


def _begin(row: CardLayout, actor: Actor) -> CardLayout:
    if not row.is_simulated and not row.is_by_claims:
        require_for_owner(actor, Right.FLEET_OPERATE, row.pool.cluster.team)
    if CapacityStop.now().is_on:
        raise CapacityStopped(_("Capacity is stopped; resume it first."))
    try:
        with transaction.atomic():
            row.save()
            detail = {"machine": row.machine, "card": row.card, "config": row.config}
            team = row.pool.team_id
            audit.record(
                actor, "card_layout.begin", subject=row, reason=row.reason, detail=detail, team_id=team
            )
            touch("changes", "capacity")
    except IntegrityError:
        raise PlanNotOpen(_("Another layout of this machine is under way.")) from None
    return row


def _machine(pool: Pool, name: str) -> PoolMachineCards:
    if pool.kind == PoolKind.SERVING:
        raise InvalidPool(fields={"pool": [_("Only pools of machines or cards have it.")]})
    machines = {one.name: one for one in ledger_of(pool.cluster).of(pool)}
    if name not in machines:
        none = _("%(pool)s has no machine %(name)s.")
        raise InvalidPool(fields={"machine": [none % {"pool": pool, "name": name}]})
    return machines[name]


def _place_on_card(row: CardLayout, machine: PoolMachineCards, needs: list[SliceNeed]) -> None:
    if row.card is None or not row.card < machine.cards:
        which = _("Give the number of a card of this machine, from 0 to %(last)s.")
        raise InvalidPool(fields={"card": [which % {"last": machine.cards - 1}]})
    row.before = machine.divided.get(row.card, [])
    _refuse_divided_otherwise(row)
    if row.sharing == CardSharing.MPS:
        row.instances = _shares(shares(memory_of(machine.model), needs))
    else:
        row.instances = [asdict(one) for one in layout(row.model, needs)]


def _place_on_machine(row: CardLayout, machine: PoolMachineCards, needs: list[SliceNeed]) -> None:
    """MIG manager and the device plugin divide all cards alike, the one by layouts that it has names for."""
    if row.card is not None:
        raise InvalidPool(fields={"card": [_("All cards of a machine are divided alike: name none.")]})
    node = Node.objects.get(cluster=row.pool.cluster, name=row.machine)
    row.was_cordoned = node.is_cordoned
    row.before = machine.divided.get(None, [])
    _refuse_divided_otherwise(row)
    if row.sharing == CardSharing.MPS:
        row.instances = (
            _shares(equal_shares(machine.memory_mib or memory_of(machine.model), needs)) if needs else []
        )
        row.config, row.config_before = f"mps-{len(row.instances)}", f"mps-{len(row.before)}"
        return
    row.config_before = node.labels.get(MIG_CONFIG) or WHOLE_CARDS
    row.config = WHOLE_CARDS
    if needs:
        profile, row.instances = fill(row.model, needs)
        row.config = f"all-{profile}"


def _shares(found: Iterable[MpsShare]) -> list[dict[str, Any]]:
    return [{"profile": PROFILE, **asdict(one)} for one in found]


def _refuse_divided_otherwise(row: CardLayout) -> None:
    """A card is divided by MIG or by MPS, and made whole before the other divides it."""
    by = CardSharing.MPS if any(one["profile"] == PROFILE for one in row.before) else CardSharing.MIG
    if row.before and by != row.sharing:
        otherwise = _("%(sharing)s divide it: make it whole by them first.")
        raise InvalidPool(fields={"sharing": [otherwise % {"sharing": by.label}]})


def _is_cordoned(row: CardLayout) -> bool:
    machine = Node.objects.filter(cluster=row.pool.cluster, name=row.machine)
    return not row.is_simulated and machine.filter(is_cordoned=True).exists()


def _refuse_in_use(row: CardLayout, machine: PoolMachineCards) -> None:
    cards = range(machine.cards) if row.card is None else (row.card,)
    holder = next((machine.holders[card] for card in cards if card in machine.holders), None)
    if holder is not None:
        used = _("%(holder)s holds it: suspend it first, or have it drained.")
        raise InvalidPool(fields={"card": [used % {"holder": holder}]})
    if row.card is None and machine.others:
        pods = _("Pods of others hold %(count)s of its cards: have them drained.")
        raise InvalidPool(fields={"card": [pods % {"count": machine.others}]})
