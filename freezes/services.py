"""Every write of freezes."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import available_timezones

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.models import Team
from accounts.services.rights import require_for_owner
from accounts.states import Right
from clusters.models import Cluster
from common import audit, clock, events
from common.actor import Actor
from common.live.touch import touch
from common.reconcile import kernel
from freezes.errors import InvalidFreeze
from freezes.events import FreezeChanged
from freezes.models import Freeze
from freezes.windows import BadRecurrence

FIRST_WITHIN = timedelta(days=3 * 366)

FIELDS = ("name", "effect", "service", "stage", "starts_at", "zone", "minutes", "recurrence", "reason")


def create_freeze(
    *,
    actor: Actor,
    team: Team | None,
    name: str,
    starts_at: datetime,
    minutes: int,
    cluster: Cluster | None = None,
    **columns: Any,
) -> Freeze:
    """Make a freeze window; `team` None: for every team. Raises NotAllowed, InvalidFreeze."""
    require_for_owner(actor, Right.FREEZES_WRITE, team)
    given = {"name": name, "starts_at": starts_at, "minutes": minutes, "cluster": cluster}
    return _insert(Freeze(team=team, created_by=actor.name, **given, **columns), actor, "freeze.create")


def change_freeze(
    row: Freeze, *, actor: Actor, expected: int | None = None, reason_of_change: str = "", **changes: Any
) -> Freeze:
    """Raises NotAllowed, InvalidFreeze, Stale."""
    require_for_owner(actor, Right.FREEZES_WRITE, row.team)
    if row.is_stop or row.ended_at:
        raise InvalidFreeze(fields={"name": [_("Only a window can be changed: end the stop instead.")]})
    with transaction.atomic():
        row.change(expected=expected, changed_at=kernel.clock(), **changes)
        _check(row)
        _record(row, actor, "freeze.change", reason_of_change)
    return row


def remove_freeze(row: Freeze, *, actor: Actor, reason: str = "", expected: int | None = None) -> None:
    """End a window or a stop; releases that waited for it continue. Raises NotAllowed, Stale."""
    require_for_owner(actor, Right.FREEZES_STOP if row.is_stop else Right.FREEZES_WRITE, row.team)
    with transaction.atomic():
        if row.ended_at is None:
            row.change(expected=expected, ended_at=clock.now(), ended_by=actor.name)
            _record(row, actor, "freeze.end", reason)


def stop_releases(*, actor: Actor, team: Team | None, reason: str) -> Freeze:
    """Stop the line of a team, or of all: no release starts or advances until a person ends the stop.

    Traffic stays as it is, and rollbacks go on. Raises NotAllowed, InvalidFreeze.
    """
    require_for_owner(actor, Right.FREEZES_STOP, team)
    if not reason.strip():
        raise InvalidFreeze(fields={"reason": [_("Give a reason: it is shown on releases that are held.")]})
    name = f"Stop by {actor.name}"  # untranslated
    row = Freeze(team=team, name=name, reason=reason, starts_at=kernel.clock(), created_by=actor.name)
    return _insert(row, actor, "freeze.stop")


def _insert(row: Freeze, actor: Actor, verb: str) -> Freeze:
    row.created_at = row.changed_at = kernel.clock()
    _check(row)
    with transaction.atomic():
        row.save()
        _record(row, actor, verb, row.reason)
    return row


def _record(row: Freeze, actor: Actor, verb: str, reason: str) -> None:
    detail = {name: value for name in FIELDS if (value := getattr(row, name)) not in ("", None)}
    detail["starts_at"] = row.starts_at.isoformat()
    if row.cluster:
        detail["cluster"] = row.cluster.name
    audit.record(actor, verb, subject=row, team_id=row.team_id, reason=reason, detail=detail)
    events.publish(FreezeChanged(row.pk))
    touch("changes", "freezes")


def _check(row: Freeze) -> None:
    """Raises InvalidFreeze."""
    if row.zone not in available_timezones():
        raise InvalidFreeze(
            fields={"zone": [_("There is no such time zone: name one such as Europe/Paris, or UTC.")]}
        )
    try:
        row.full_clean(exclude=["team", "cluster"])
    except ValidationError as error:
        raise InvalidFreeze(fields=error.message_dict) from None
    if not 2020 <= row.starts_at.year <= 2100:
        raise InvalidFreeze(fields={"starts_at": [_("Choose a time between the years 2020 and 2100.")]})
    try:
        first = next(row.window.times(row.starts_at, row.starts_at + FIRST_WITHIN), None)
    except BadRecurrence as error:
        wrong = _(
            "This is no recurrence rule of RFC 5545 that is understood (%(why)s). Write one such as "
            "FREQ=WEEKLY;BYDAY=FR, or leave it empty."
        )
        raise InvalidFreeze(fields={"recurrence": [wrong % {"why": error}]}) from None
    if first is None:
        raise InvalidFreeze(fields={"recurrence": [_("No day of the next three years fulfils this rule.")]})
