"""What others than the kernel's own steps do to a row: wake it, take it away, try it again, end a doubt."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet

from common import events
from common.actor import Actor
from common.logs import context
from common.models import Intent
from common.reconcile.rows import EPOCH, Reconciled, Singleton
from common.reconcile.steps import Reconciler

ACTOR = Actor.system("slipway")

FRESH: Mapping[str, Any] = {"lease_until": EPOCH, "attempts": 0, "failed_since": None, "stuck_at": None}
"""A row without a past: as if its step had never been tried."""


@dataclass(frozen=True, slots=True)
class Due:
    """A row's next step is due now: the doorbell."""

    kind: str
    id: int
    lane: str = ""


@dataclass(frozen=True, slots=True)
class StuckRow:
    """A row has failed too often and waits for a person."""

    kind: str
    id: int


class RowRequests:
    """The registered kinds, and what may be asked of their rows."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._reconcilers: dict[str, Reconciler[Any]] = {}
        self.clock = clock

    def register(self, reconciler: Reconciler[Any]) -> None:
        """Raises ValueError for a second one of a kind, and where its rows lack a column of the kernel's."""
        if reconciler.kind in self._reconcilers:
            raise ValueError(f"{reconciler.kind} is registered already.")
        columns = {column.name: column for column in reconciler.model._meta.concrete_fields}
        for kept in Reconciled._meta.local_fields:
            if columns[kept.name].deconstruct()[1:] != kept.deconstruct()[1:]:
                raise ValueError(f"{reconciler.kind}: the kernel keeps the column {kept.name!r} for itself.")
        self._reconcilers[reconciler.kind] = reconciler

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self._reconcilers)

    def reconciler(self, kind: str) -> Reconciler[Any]:
        return self._reconcilers[kind]

    def plant(self, app_label: str, using: str) -> None:
        """Set up the only rows of the app's tables that have one."""
        for reconciler in self._reconcilers.values():
            model = reconciler.model
            if issubclass(model, Singleton) and model._meta.app_label == app_label:
                model._default_manager.using(using).get_or_create(pk=1, defaults=model.seed(self.clock()))

    def kind_of(self, row: Reconciled) -> str:
        return row._meta.label_lower

    def wake(self, row: Reconciled, *, where: Mapping[str, Any] | None = None, **wishes: Any) -> bool:
        """Write wishes on the row and make its next step due now; False if `where` does not hold any more.

        A step that is under way finishes first; the wish is not lost. A stuck row is tried again: what is
        wished may be what it lacked. Call it inside the transaction of the audit row.
        """
        return self._wish(row, where or {}, wishes)

    def interrupt(
        self, row: Reconciled, *, to: str = "", where: Mapping[str, Any] | None = None, **wishes: Any
    ) -> bool:
        """Like `wake`, but takes the row away from whoever has it: what outranks all, such as an abort.

        The worker in mid-step finds its fence stale at its next write, in the database and at the resource.
        `to`: the row's state from now on, if it still is in that of `where`, or that was read; the caller
        writes the history. Raises IllegalMove when the kind's table of moves has no way there.
        """
        if to:
            where = {"state": getattr(row, "state", ""), **(where or {})}
            reconciler = self._reconcilers.get(self.kind_of(row))
            if reconciler is not None and reconciler.moves is not None:
                reconciler.moves.check(where["state"], to)
            wishes["state"] = to
        return self._wish_now(row, where or {}, {**wishes, **FRESH, "fence": F("fence") + 1})

    def try_again(self, row: Reconciled, *, actor: Actor, reason: str, **wishes: Any) -> bool:
        """Begin the step of a stuck row anew; False if it is not stuck. The caller records who asked."""
        with transaction.atomic():
            return self._revive(row, {}, wishes, by=actor.name, reason=reason)

    def doubts(self, row: Reconciled) -> QuerySet[Intent]:
        """The row's effects of which nobody knows whether they took place, the oldest first."""
        rows = Intent.objects.filter(kind=self.kind_of(row), object_id=str(row.pk))
        return rows.filter(state=Intent.State.UNKNOWN).order_by("intended_at")

    def answer(self, row: Reconciled, op_key: str, *, happened: bool, actor: Actor, reason: str) -> bool:
        """A person has looked whether the effect in doubt took place; False if it is not in doubt.

        After the last doubt the row goes on accordingly. The caller records who answered.
        """
        doubt = self.doubts(row).filter(op_key=op_key)
        with transaction.atomic():
            if happened:
                if not doubt.update(state=Intent.State.ACTED, acted_at=self.clock()):
                    return False
            elif not doubt.delete()[0]:
                return False
            if not self.doubts(row).exists():
                self._revive(row, {}, {}, by=actor.name, reason=reason)
            return True

    def _wish(self, row: Reconciled, where: Mapping[str, Any], wishes: Mapping[str, Any]) -> bool:
        # Others may have stuck or revived it in between.
        return any(
            self._wish_now(row, {**where, "stuck_at__isnull": True}, wishes)
            or self._revive(row, where, wishes, by=ACTOR.name, reason="")
            for _ in range(2)
        )

    def _wish_now(self, row: Reconciled, where: Mapping[str, Any], columns: Mapping[str, Any]) -> bool:
        rows = type(row)._default_manager.filter(pk=row.pk, **where)
        lane = row.lane
        if columns:
            # It may wait for something else now, and must not wait first for what it waited for before.
            lane, columns = "", {**columns, "lane": "", "lane_host": ""}
        if origin := context.origin_now():
            columns = {**columns, "origin": origin}
        if not rows.update(**columns, wakes=F("wakes") + 1, next_at=self.clock()):
            return False
        events.publish(Due(self.kind_of(row), row.pk, lane))
        return True

    def _revive(
        self, row: Reconciled, where: Mapping[str, Any], wishes: Mapping[str, Any], *, by: str, reason: str
    ) -> bool:
        stuck = type(row)._default_manager.filter(pk=row.pk, stuck_at__isnull=False, **where).first()
        if stuck is None:
            return False
        with transaction.atomic():
            reconciler = self._reconcilers.get(self.kind_of(row))
            back = reconciler.on_revive(stuck, by, reason) if reconciler else {}
            still = {"stuck_at": stuck.stuck_at, "fence": stuck.fence}
            return self._wish_now(stuck, still, {**back, **wishes, **FRESH})
