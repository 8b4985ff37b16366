"""Writes of groups. What follows from them is done by their reconciler."""

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from capacity.errors import InvalidPool
from capacity.models import PoolMember, ServiceGroups
from capacity.states import PoolMode
from clusters.models import Deployment
from clusters.selectors import services_with_routes
from clusters.services.deployments import set_offline_workers
from common import audit
from common.actor import Actor
from common.errors import Unavailable
from common.job_queue import ask_queue
from common.live.touch import touch
from common.reconcile import kernel
from gateway.models import Gateway
from gateway.states import GatewayKind


def set_groups(
    member: PoolMember,
    *,
    actor: Actor,
    least_online: int = 1,
    wait_seconds: int = 5,
    latency_bound_ms: int | None = None,
    reason: str = "",
) -> ServiceGroups:
    """Give the service's workers groups, or change their rules. Raises NotAllowed, InvalidPool."""
    right = Right.CAPACITY_APPLY if member.pool.state == PoolMode.AUTOMATIC else Right.CAPACITY_WRITE
    require(actor, right, member.pool.team, service=member.service)
    rules = {
        "least_online": least_online,
        "wait_seconds": wait_seconds,
        "latency_bound_ms": latency_bound_ms,
    }
    if member.service not in services_with_routes():
        none = _("%(service)s takes no jobs: groups need a service of its own code with a job's route.")
        raise InvalidPool(fields={"service": [none % {"service": member.service}]})
    if Gateway.objects.filter(cluster=member.pool.cluster, kind=GatewayKind.GATEWAY_API).exists():
        whole = _("The gateway of %(cluster)s sends requests to all workers of a service: it takes none out.")
        raise InvalidPool(fields={"service": [whole % {"cluster": member.pool.cluster}]})
    if least_online > member.limit:
        over = _("%(least)s online are more than the %(limit)s workers that the service may have.")
        raise InvalidPool(fields={"least_online": [over % {"least": least_online, "limit": member.limit}]})
    with transaction.atomic():
        row = ServiceGroups.objects.filter(member=member).first() or ServiceGroups(member=member)
        for name, value in rules.items():
            setattr(row, name, value)
        try:
            row.full_clean(exclude=["member"])
        except ValidationError as error:
            raise InvalidPool(fields=error.message_dict) from None
        if row.pk:
            row.save(update_fields=list(rules))
        else:
            row.save()
        kernel.wake(row)
        detail = {"service": member.service, **rules}
        pool = member.pool
        audit.record(actor, "pool.groups", subject=pool, reason=reason, detail=detail, team_id=pool.team_id)
        touch("changes", "capacity")
    return row


def remove_groups(row: ServiceGroups, *, actor: Actor, reason: str = "") -> None:
    """All its workers get requests, and take jobs beside them as before. Raises NotAllowed, Unavailable."""
    member = row.member
    require(actor, Right.CAPACITY_WRITE, member.pool.team, service=member.service)
    with transaction.atomic():
        pool = member.pool
        detail = {"service": member.service}
        audit.record(actor, "pool.ungroup", subject=pool, reason=reason, detail=detail, team_id=pool.team_id)
        release_workers(row)
        row.delete()
        touch("changes", "capacity")


def release_workers(row: ServiceGroups) -> None:
    """Have all workers get requests; a queue that does not answer says so. Raises Unavailable."""
    if not row.target:
        return
    if Deployment.objects.filter(name=row.target).exists():
        set_offline_workers(name=row.target, offline=())
    pool = (row.member.service, row.target)
    try:
        ask_queue(lambda _queue, store: store.unassign(pool))
    except Unavailable:
        if row.wanted_offline:
            raise
