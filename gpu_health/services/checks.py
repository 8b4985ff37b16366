"""Check Jobs of machines are ordered, cancelled, and taken in turn."""

from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require_for_owner
from accounts.states import Right
from clusters.models import Node
from clusters.states import NodeState
from common import audit, clock
from common.actor import Actor
from common.reconcile import kernel
from gpu_health import selectors
from gpu_health.errors import CheckEnded, CheckUnderWay, InvalidCheck
from gpu_health.models import GpuCheck
from gpu_health.states import CheckLevel, CheckState

WAITS = timedelta(hours=1)
"""For an idle machine, unless whoever orders it says otherwise."""
LONGEST_WAIT = timedelta(days=7)


def order_check(
    *, actor: Actor, node: Node, level: int = CheckLevel.SHORT, reason: str = "", waits: timedelta = WAITS
) -> GpuCheck:
    """Order a check; it begins once nobody computes on the machine, within `waits`.

    Raises NotAllowed, InvalidCheck, CheckUnderWay while another check of the machine is not over.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, node.cluster.team)
    if level not in CheckLevel.values:
        raise InvalidCheck(fields={"level": [_("Give 1, 2 or 3.")]})
    if not timedelta(0) <= waits <= LONGEST_WAIT:
        raise InvalidCheck(fields={"wait_minutes": [_("Give 0 to 10,080 minutes.")]})
    if node.state == NodeState.GONE:
        raise InvalidCheck(_("%(node)s is gone: its cluster no longer lists it.") % {"node": node.name})
    if not selectors.gpu_machines(Node.objects.filter(pk=node.pk)).exists():
        raise InvalidCheck(
            _(
                "%(node)s has no GPUs: there is nothing to check. If it must have some, say so on its page "
                "or with slipway gpu count expect."
            )
            % {"node": node.name}
        )
    now = clock.now()
    try:
        with transaction.atomic():
            check = GpuCheck.objects.create(
                node=node,
                level=level,
                ordered_by=actor.name,
                reason=reason,
                waits_until=now + waits,
                next_at=now,
            )
            _record(actor, "gpu_check.order", check, reason)
    except IntegrityError:
        raise CheckUnderWay(_("Another check of %(node)s is still running.") % {"node": node.name}) from None
    kernel.wake(check)
    return check


def cancel_check(*, actor: Actor, check: GpuCheck, reason: str = "") -> GpuCheck:
    """A Job that runs is stopped. Raises NotAllowed, CheckEnded."""
    require_for_owner(actor, Right.FLEET_OPERATE, check.node.cluster.team)
    with transaction.atomic():
        open_states = [CheckState.WAITING, CheckState.RUNNING]
        if not kernel.wake(check, where={"state__in": open_states}, cancelled_by=actor.name):
            raise CheckEnded(_("This check has ended."))
        _record(actor, "gpu_check.cancel", check, reason)
    check.refresh_from_db()
    return check


def _record(actor: Actor, deed: str, check: GpuCheck, reason: str) -> None:
    audit.record(
        actor,
        deed,
        subject=check,
        reason=reason,
        detail={"node": check.node.name, "level": check.level},
        team_id=check.node.cluster.team_id,
    )
