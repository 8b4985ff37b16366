"""What the reconcilers of syncs and exports have in common: how they move, and what is written of it."""

from functools import partial
from typing import Any, ClassVar, TypeVar

from common import audit
from common.actor import Actor
from common.reconcile import Reconciler
from common.reconcile.endings import moved as moved_unless_open
from hubs.models import HubTransfer
from hubs.services.transfers import Transfers
from hubs.states import MOVES, OPEN

T = TypeVar("T", bound=HubTransfer)
moved = partial(moved_unless_open, OPEN)


class TransferReconciler(Reconciler[T]):
    moves = MOVES
    actor: ClassVar[Actor]
    transfers: ClassVar[Transfers[Any]]

    def on_move(self, row: T, to: str, note: str) -> None:
        audit.record(
            self.actor,
            f"{self.transfers.name}.{to}",
            subject=row,
            reason=note,
            detail=self.transfers.detail(row),
            team_id=row.model.team_id,
        )
