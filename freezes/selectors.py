"""Questions that are asked of freezes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, Q

from accounts.states import Right
from common import clock
from common.actor import Actor
from freezes.models import Freeze, FreezeRows
from freezes.windows import FreezeTime, frozen_at


@dataclass(frozen=True, slots=True)
class ActiveFreeze:
    """A freeze that holds now, with its end if one is known."""

    freeze: Freeze
    until: datetime | None


def freezes_for(actor: Actor) -> FreezeRows:
    """Freezes in force that the actor may see."""
    return Freeze.objects.for_actor(actor, Right.READ).in_force().select_related("team", "cluster")


def stops_for(actor: Actor) -> list[Freeze]:
    """Return the stops in force that the actor may see: they hold every release of a team, or of all."""
    return list(freezes_for(actor).filter(minutes=None).order_by("starts_at"))


def has_freezes(team: int) -> bool:
    """Whether any freeze is in force that may concern services of the team."""
    return Freeze.objects.in_force().filter(Q(team=None) | Q(team=team)).exists()


def over(*, team: Any, service: Any, cluster: Any) -> FreezeRows:
    """Freezes in force that concern the service of a team in a cluster, those of a stage that it may not be
    in among them; each may be an `OuterRef`."""
    return Freeze.objects.in_force().filter(
        Q(team=None) | Q(team=team), Q(service="") | Q(service=service), Q(cluster=None) | Q(cluster=cluster)
    )


def freeze_now(
    *,
    team: int,
    service: str,
    cluster: int,
    in_stage: Exists | None = None,
    at: datetime | None = None,
    made_after: datetime | None = None,
) -> ActiveFreeze | None:
    """Return the freeze that holds for the service; None: its releases may advance.

    `in_stage`: whether the service is in the freeze's stage; None: it is in none. `made_after`: only freezes
    that were made or changed later count; None: all.
    """
    rows = over(team=team, service=service, cluster=cluster)
    rows = rows.filter(Q(stage="") | in_stage) if in_stage is not None else rows.filter(stage="")
    return holding(rows.filter(changed_at__gt=made_after) if made_after else rows, at)


def holding(freezes: Iterable[Freeze], at: datetime | None = None) -> ActiveFreeze | None:
    """Return which of the freezes, all of which concern one service, holds."""
    rows = list(freezes)
    verdict = frozen_at([row.window for row in rows], at or clock.now())
    return ActiveFreeze(rows[verdict.by], verdict.until) if verdict else None


@dataclass(frozen=True, slots=True)
class CalendarEntry:
    freeze: Freeze
    time: FreezeTime
    holds: bool


def upcoming(rows: Sequence[Freeze], *, days: int, at: datetime | None = None) -> list[CalendarEntry]:
    """Return the times of the next days, in order of their begin."""
    now = at or clock.now()
    entries = [
        CalendarEntry(row, time, time.holds(now))
        for row in rows
        for time in row.window.times(now, now + timedelta(days=days))
    ]
    return sorted(entries, key=lambda entry: entry.time.begin)
