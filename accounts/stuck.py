"""What is stuck, or has failed for minutes, of every kind of row at once: who may know of it, who may act."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from django.core.exceptions import FieldDoesNotExist
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from accounts.actors import grants_of
from accounts.selectors import may_everywhere, may_for_owner
from accounts.states import Right
from common.actor import Actor
from common.errors import Missing
from common.models import Intent
from common.pages import subjects
from common.reconcile import Reconciled, kernel
from common.reconcile.trouble import FAILING_AFTER, troubled

MOST_OF_A_KIND = 500
"""Rows of a kind that are looked at, those that have failed the longest first."""


@dataclass(frozen=True, slots=True)
class UncertainEffect:
    """An effect that was begun by a process that died, and of which nobody knows whether it took place."""

    op_key: str
    step: str
    wanted: Mapping[str, Any]
    intended_at: datetime


@dataclass(frozen=True, slots=True)
class StuckItem:
    """A row that waits for a person, or whose step has failed for more than two minutes."""

    kind: str
    """`app.model`."""
    id: int
    title: str
    url: str
    """Of its page."""
    state: Literal["stuck", "failing"]
    since: datetime
    """In this state."""
    failing_since: datetime
    why: str
    attempts: int
    doubts: Sequence[UncertainEffect]
    """The oldest first; each is to be answered before the row goes on."""
    may_retry: bool
    """It is stuck, and the actor has the right to try it again and to answer."""


def right_over(kind: str) -> Right:
    """The right that it takes to try rows of the kind again."""
    return Right(kernel.reconciler(kind).right or Right.FLEET_OPERATE)


def rows_of(kind: str, actor: Actor, right: Right = Right.READ) -> QuerySet[Any]:
    """The rows of the kind over which the actor has the right; of what no team owns, all rows for those who
    operate the fleet of the whole installation."""
    rows: QuerySet[Any] = kernel.reconciler(kind).model._default_manager.all()
    path = _team_path(rows)
    if path is None:
        return rows if may_everywhere(actor, Right.FLEET_OPERATE) else rows.none()
    rows = rows.select_related(*subjects.keys_followed(kind), *_before(path))
    if hasattr(rows, "for_actor"):
        rows = rows.for_actor(actor, right)
    elif right not in (grants := grants_of(actor)).everywhere:
        rows = rows.filter(**{f"{path}__in": grants.team_ids(right)})
    return rows


def everything_stuck(actor: Actor, *, only_mine: bool = False) -> list[StuckItem]:
    """Return the stuck rows that the actor may see, or `only_mine`, may act on; the longest first.

    One query, and one more for each kind of which something is in trouble.
    """
    return _all_of(kernel.kinds, actor, only_mine=only_mine)


def stuck_of(row: Reconciled, actor: Actor) -> StuckItem | None:
    """Return the trouble of a row for its own page, or None. No query while there is none."""
    return next(iter(_told([row], actor)), None)


def stuck_at(address: str, actor: Actor) -> list[StuckItem]:
    """Return the trouble of kinds whose rows share this page, such as clusters, or the runs of the store."""
    return _all_of([kind for kind in kernel.kinds if subjects.address_of_kind(kind) == address], actor)


def one_of(kind: str, pk: int, actor: Actor) -> Reconciled:
    """Raises Missing when there is no such row, or none that the actor may see."""
    row = rows_of(kind, actor).filter(pk=pk).first() if kind in kernel.kinds else None
    if row is None:
        raise Missing(_("There is no %(kind)s %(id)s, or none that you may see.") % {"kind": kind, "id": pk})
    return row  # type: ignore[no-any-return]


def team_column(kind: str) -> str | None:
    """The way from a row of the kind to the team that owns it, such as `model__team`; None: no team does."""
    return _team_path(kernel.reconciler(kind).model._default_manager.all())


def _all_of(kinds: Sequence[str], actor: Actor, *, only_mine: bool = False) -> list[StuckItem]:
    by_kind: dict[str, list[int]] = defaultdict(list)
    for kind, pk in troubled(kinds=kinds, limit=MOST_OF_A_KIND):
        by_kind[kind].append(pk)
    found = [
        row
        for kind, pks in by_kind.items()
        for row in rows_of(kind, actor, right_over(kind) if only_mine else Right.READ).filter(pk__in=pks)
    ]
    return sorted(_told(found, actor), key=lambda one: one.since)


def _told(rows: Iterable[Reconciled], actor: Actor) -> list[StuckItem]:
    known = [(row, since) for row in rows if (since := _since(row)) is not None]
    doubts = _doubts([row for row, _since in known if row.stuck_at is not None])
    return [_stuck(row, since, doubts[kernel.kind_of(row), str(row.pk)], actor) for row, since in known]


def _since(row: Reconciled) -> datetime | None:
    if row.failed_since is None:
        return row.stuck_at
    is_told = row.stuck_at is not None or row.failed_since <= kernel.clock() - FAILING_AFTER
    return row.failed_since if is_told else None


def _stuck(
    row: Reconciled, failing_since: datetime, doubts: Sequence[UncertainEffect], actor: Actor
) -> StuckItem:
    kind = kernel.kind_of(row)
    return StuckItem(
        kind=kind,
        id=row.pk,
        title=subjects.title_of(row),
        url=subjects.address_of(row),
        state="failing" if row.stuck_at is None else "stuck",
        since=row.stuck_at or failing_since,
        failing_since=failing_since,
        why=row.last_error,
        attempts=row.attempts,
        doubts=doubts,
        may_retry=row.stuck_at is not None and _may(row, kind, actor),
    )


def _may(row: Reconciled, kind: str, actor: Actor) -> bool:
    path = team_column(kind)
    team_id = None if path is None else subjects.column_of(row, f"{path}_id")
    return may_for_owner(actor, right_over(kind), team_id)


def _doubts(rows: Sequence[Reconciled]) -> Mapping[tuple[str, str], list[UncertainEffect]]:
    """Return open doubts by kind and id. At most one query."""
    found: dict[tuple[str, str], list[UncertainEffect]] = defaultdict(list)
    if not rows:
        return found
    unknown = Intent.objects.filter(
        state=Intent.State.UNKNOWN,
        kind__in={kernel.kind_of(row) for row in rows},
        object_id__in={str(row.pk) for row in rows},
    )
    for one in unknown.order_by("intended_at"):
        found[one.kind, one.object_id].append(
            UncertainEffect(one.op_key, one.step, one.wanted, one.intended_at)
        )
    return found


def _team_path(rows: QuerySet[Any]) -> str | None:
    if hasattr(rows, "for_actor"):
        return str(rows.team_path)  # type: ignore[attr-defined]
    try:
        rows.model._meta.get_field("team")
    except FieldDoesNotExist:
        return None
    return "team"


def _before(path: str) -> list[str]:
    """The keys on the way to the team, whose own row is not needed."""
    before = path.rpartition("__")[0]
    return [before] if before else []
