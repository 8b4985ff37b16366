"""Every write of service level objectives."""

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from accounts import team_rows
from accounts.services.rights import require
from accounts.states import Right
from common import audit
from common.actor import Actor
from common.live.touch import touch
from common.reconcile import kernel
from gateway.latency import BOUNDS_MS
from objectives.errors import InvalidObjective
from objectives.models import ObjectiveCount, ServiceObjective
from releases.models import Service


def create_objective(
    *,
    actor: Actor,
    service: Service,
    name: str,
    target_percent: float,
    latency_ms: float | None = None,
    window_days: int = 30,
    description: str = "",
) -> ServiceObjective:
    """Raises NotAllowed, Conflict, InvalidObjective."""
    row = ServiceObjective(
        team=service.team,
        service=service,
        name=name,
        target_percent=target_percent,
        latency_ms=latency_ms,
        window_days=window_days,
        description=description,
    )
    _check(row)
    team_rows.create(row, actor=actor, right=Right.SERVICES_WRITE)
    _count_soon()
    return row


def change_objective(
    row: ServiceObjective, *, actor: Actor, expected: int | None = None, reason: str = "", **changes: Any
) -> ServiceObjective:
    """Requests are counted anew when a change touches what is good. Raises NotAllowed, Stale,
    InvalidObjective.
    """
    require(actor, Right.SERVICES_WRITE, row.team)
    if "latency_ms" in changes and changes["latency_ms"] != row.latency_ms:
        changes |= _UNCOUNTED
    with transaction.atomic():
        row.change(expected=expected, **changes)
        _check(row)
        audit.record(
            actor,
            "serviceobjective.change",
            subject=row,
            team_id=row.team_id,
            reason=reason,
            detail={name: value for name, value in changes.items() if name not in _UNCOUNTED},
        )
    _count_soon()
    return row


def delete_objective(
    row: ServiceObjective, *, actor: Actor, reason: str = "", expected: int | None = None
) -> None:
    """Raises NotAllowed, Stale."""
    require(actor, Right.SERVICES_WRITE, row.team)
    with transaction.atomic():
        row.change(expected=expected)
        audit.record(actor, "serviceobjective.delete", subject=row, team_id=row.team_id, reason=reason)
        row.delete()
    touch("changes", "objectives")


_UNCOUNTED: Mapping[str, Any] = {"counted_until": None, "minutes": [], "hours": []}


def _check(row: ServiceObjective) -> None:
    try:
        row.full_clean(exclude=["team", "service", "created_by", "minutes", "hours"])
    except ValidationError as error:
        raise InvalidObjective(fields=error.message_dict) from None
    if row.latency_ms is not None and row.latency_ms not in BOUNDS_MS:
        nearest = sorted(BOUNDS_MS, key=lambda bound: abs(bound - (row.latency_ms or 0.0)))[:2]
        near = " or ".join(f"{bound:g}" for bound in sorted(nearest))  # untranslated
        wrong = _("Latency is counted up to fixed bounds: choose %(near)s ms.") % {"near": near}
        raise InvalidObjective(fields={"latency_ms": [wrong]})


def _count_soon() -> None:
    for row in ObjectiveCount.objects.all():
        kernel.wake(row)
    touch("changes", "objectives")
