"""Writes of policies of scaling, and of the load that they are tried on."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Max

from accounts.services.rights import require
from accounts.states import Right
from capacity.errors import InvalidPool
from capacity.models import PoolMember, ScalingPolicy, ServiceLoad
from capacity.planning.errors import PlanningError
from capacity.planning.policies import law_with
from capacity.states import PoolMode
from capacity.switch_times import UNMEASURED_SWITCH_SECONDS
from common import audit
from common.actor import Actor
from common.live.touch import touch


def set_policy(
    member: PoolMember, *, actor: Actor, law: Mapping[str, Any], reason: str = ""
) -> ScalingPolicy:
    """Put a new version in force; the one before stays to be read. An empty law follows the switch time.

    Raises NotAllowed, InvalidPool. In a pool that acts by itself it takes the right to apply plans.
    """
    pool = member.pool
    right = Right.CAPACITY_APPLY if pool.state == PoolMode.AUTOMATIC else Right.CAPACITY_WRITE
    require(actor, right, pool.team, service=member.service)
    try:
        law_with(UNMEASURED_SWITCH_SECONDS, law)
    except PlanningError as error:
        raise InvalidPool(fields={error.field: [error.reason]}) from None
    with transaction.atomic():
        PoolMember.objects.select_for_update().get(pk=member.pk)
        versions = ScalingPolicy.objects.filter(member=member)
        last = versions.aggregate(last=Max("number"))["last"] or 0
        row = ScalingPolicy.objects.create(
            member=member, number=last + 1, law=dict(law), reason=reason, created_by=actor.name
        )
        detail = {"service": member.service, "number": row.number, **law}
        audit.record(actor, "pool.policy", subject=pool, reason=reason, detail=detail, team_id=pool.team_id)
        touch("changes", "capacity")
    return ScalingPolicy.objects.with_force().get(pk=row.pk)


def record_loads(found: Mapping[int, tuple[float, int, int | None]], now: datetime) -> None:
    """Add a sample of load, workers and workers online, by the id of the member, to the minute's row."""
    minute = int(now.timestamp() // 60)
    rows = {row.member_id: row for row in ServiceLoad.objects.filter(member__in=found, minute=minute)}
    for member, (load, workers, online) in found.items():
        row = rows.setdefault(member, ServiceLoad(member_id=member, minute=minute, at=now))
        row.samples = [*row.samples, [round(now.timestamp(), 1), round(load, 4), workers, online]]
    ServiceLoad.objects.bulk_create(
        rows.values(),
        update_conflicts=True,
        unique_fields=["member", "minute"],
        update_fields=["samples"],
    )
