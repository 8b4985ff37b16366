"""Cards whose parts pods claim (DRA): a layout there is a place for its needs, and templates of claims."""

import re
from dataclasses import asdict

from django.utils.translation import gettext as _

from capacity.errors import InvalidPool
from capacity.ledger import PoolMachineCards
from capacity.models import CardLayout
from capacity.planning.cards import MigPlacement, SliceNeed, layout
from capacity.planning.errors import PlanningError
from capacity.states import BY_CLAIMS, CardSharing, LayoutState

LONGEST_NAME = 40


def place_by_claims(row: CardLayout, machine: PoolMachineCards, needs: list[SliceNeed]) -> None:
    """Place the needs beside what pods have claimed, on the card that is named or the first with room.

    Nothing is drained: the driver makes an instance when a pod claims it, wherever the scheduler finds room;
    on a card that was named, there alone. Raises InvalidPool, PlanningError.
    """
    if row.sharing != CardSharing.MIG:
        only = _("Pods claim parts of its cards, which their driver divides by MIG alone.")
        raise InvalidPool(fields={"sharing": [only]})
    if not needs:
        whole = _("Its cards are whole once no pod claims a part of them: undo the layout, end the pods.")
        raise InvalidPool(fields={"needs": [whole]})
    if row.card is not None and row.card not in machine.claimable:
        which = _("Give the number of a card of this machine, from 0 to %(last)s.")
        raise InvalidPool(fields={"card": [which % {"last": machine.cards - 1}]})
    cards = [row.card] if row.card is not None else sorted(machine.claimable)
    problem: PlanningError | None = None
    for card in cards:
        held = machine.claimable[card]["held"]
        if card in machine.holders or any(not one["profile"] for one in held):
            problem = problem or PlanningError("card", _("Somebody has the whole card."))
            continue
        kept = [MigPlacement(one["profile"], one["begin"], "") for one in held]
        try:
            placed = layout(row.model, needs, kept)[len(kept) :]
        except PlanningError as error:
            problem = error
            continue
        row.instances = [
            asdict(one) | {"template": _template(row, one.name, place)} for place, one in enumerate(placed)
        ]
        row.config = row.config_before = BY_CLAIMS
        row.state = LayoutState.APPLYING
        row.was_cordoned = True  # it is neither drained nor uncordoned
        return
    raise problem or PlanningError("machine", _("None of its cards can be claimed in parts."))


def _template(row: CardLayout, name: str, place: int) -> str:
    """Return the name that pods give: of the model, its pool and its place among the needs."""
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:LONGEST_NAME].strip("-") or "part"
    card = "" if row.card is None else f"-{row.card}"
    return f"{words}-pool-{row.pool_id}{card}-{place}"
