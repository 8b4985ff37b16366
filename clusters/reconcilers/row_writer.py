"""Rows of machines and GPUs are written together: what changes alike, in one statement."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

from clusters.models import Gpu, Node
from clusters.states import NodeState

Row = TypeVar("Row", Node, Gpu)
TOGETHER = 500


class RowWriter(Generic[Row]):
    """`note` what rows should be; `flush` writes what differs."""

    def __init__(self, model: type[Row], now: datetime) -> None:
        self._model: type[Row] = model
        self._now = now
        self._new: list[Row] = []
        self._changes: dict[str, tuple[Mapping[str, Any], list[int]]] = {}
        self.is_news = False

    def note(self, row: Row, columns: Mapping[str, Any], *, no_news: Collection[str] = ()) -> None:
        """`no_news`: columns of which nobody would want to know."""
        is_new = row.pk is None
        changes = {name: value for name, value in columns.items() if is_new or getattr(row, name) != value}
        if not changes:
            return
        self.is_news |= bool(changes.keys() - set(no_news))
        if "state" in changes:
            changes["state_since"] = self._now
        if isinstance(row, Node) and columns["state"] in (NodeState.READY, NodeState.NOT_READY):
            changes["seen_at"] = self._now
        for name, value in changes.items():
            setattr(row, name, value)
        if is_new:
            self._new.append(row)
        else:
            # As text: what is in it need not be hashable.
            self._changes.setdefault(repr(sorted(changes.items())), (changes, []))[1].append(row.pk)

    def flush(self) -> None:
        """New rows have their keys then."""
        self._model.objects.bulk_create(self._new, batch_size=TOGETHER)
        for changes, pks in self._changes.values():
            for start in range(0, len(pks), TOGETHER):
                self._model.objects.filter(pk__in=pks[start : start + TOGETHER]).update(**changes)
        self._new, self._changes = [], {}
