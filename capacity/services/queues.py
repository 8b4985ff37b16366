"""Writes of queues of services."""

from datetime import datetime
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from capacity.errors import InvalidPool
from capacity.models import PoolMember, ServiceQueue
from capacity.queue_looks import PURPOSE
from capacity.queues.kinds import KINDS
from capacity.states import QueueKind
from clusters.selectors import services_with_routes
from common import audit, clock
from common.actor import Actor
from common.live.touch import touch
from common.outbound import own_machine
from common.outbound.faults import Forbidden
from common.reconcile import kernel
from common.sealed import seal

LONGEST_SECRET = 4_096


def set_queue(
    member: PoolMember,
    *,
    actor: Actor,
    kind: str = QueueKind.JOBS,
    url: str = "",
    subject: str = "",
    consumer_group: str = "",
    secret: str | None = None,
    item_seconds: float | None = None,
    deadline: datetime | None = None,
    reason: str = "",
) -> ServiceQueue:
    """Give the service a queue, by which its workers are counted, or change it. `secret` None: as it is,
    while the address stays. To name another server takes the right to operate the fleet.

    Raises NotAllowed, InvalidPool.
    """
    pool = member.pool
    require(actor, Right.CAPACITY_WRITE, pool.team, service=member.service)
    if kind != QueueKind.JOBS:
        require(actor, Right.FLEET_OPERATE, pool.team)
    row = ServiceQueue.objects.filter(member=member).first() or ServiceQueue(member=member)
    place = {"kind": kind, "url": url.strip(), "subject": subject.strip(), "consumer_group": consumer_group}
    is_elsewhere = any(getattr(row, name) != value for name, value in place.items())
    for name, value in {**place, "item_seconds": item_seconds, "deadline": deadline}.items():
        setattr(row, name, value)
    if secret is not None or is_elsewhere:
        row.sealed_secret = _sealed(secret or "")
    if is_elsewhere:
        row.memory, row.look, row.late_since = {}, None, None
    _check(row)
    with transaction.atomic():
        row.save()
        kernel.wake(row)
        detail = {"service": member.service, **place, "item_seconds": item_seconds}
        detail["deadline"] = deadline.isoformat() if deadline else None
        audit.record(actor, "pool.queue", subject=pool, reason=reason, detail=detail, team_id=pool.team_id)
        touch("changes", "capacity")
    return row


def remove_queue(row: ServiceQueue, *, actor: Actor, reason: str = "") -> None:
    """Its service is scaled by requests alone again. Raises NotAllowed."""
    member = row.member
    require(actor, Right.CAPACITY_WRITE, member.pool.team, service=member.service)
    with transaction.atomic():
        detail = {"service": member.service}
        team = member.pool.team_id
        audit.record(actor, "pool.unqueue", subject=member.pool, reason=reason, detail=detail, team_id=team)
        row.delete()
        touch("changes", "capacity")


def ask_for_worker(service: str) -> bool:
    """Have a queue's service without workers start one, because work was refused; False: it has no queue."""
    row = ServiceQueue.objects.filter(member__service=service).select_related("member__pool").first()
    if row is None:
        return False
    kernel.wake(row, wanted_at=clock.now())
    kernel.wake(row.member.pool)
    return True


def _sealed(secret: str) -> str:
    plain = secret.strip()
    if len(plain) > LONGEST_SECRET or not plain.isascii() or any(character < " " for character in plain):
        raise InvalidPool(fields={"secret": [_("A secret is one line of ASCII.")]})
    return seal(plain, purpose=PURPOSE) if plain else ""


def _check(row: ServiceQueue) -> None:
    """Raises InvalidPool."""
    try:
        row.full_clean(exclude=["member"])
    except ValidationError as error:
        raise InvalidPool(fields=error.message_dict) from None
    if row.deadline is not None and row.deadline <= clock.now():
        raise InvalidPool(fields={"deadline": [_("Give a time that is still to come.")]})
    if row.kind == QueueKind.JOBS:
        for name in ("url", "subject", "consumer_group"):
            if getattr(row, name):
                raise InvalidPool(fields={name: [_("The service's own jobs have no address.")]})
        if row.member.service not in services_with_routes():
            none = _("%(service)s takes no jobs: give the address of another queue.")
            raise InvalidPool(fields={"kind": [none % {"service": row.member.service}]})
        return
    kind = KINDS[QueueKind(row.kind)]
    parts = urlsplit(row.url)
    if parts.scheme not in kind.schemes or not parts.hostname:
        such = _("Give an address with %(schemes)s.") % {
            "schemes": ", ".join(f"{s}://" for s in kind.schemes)
        }
        raise InvalidPool(fields={"url": [such]})
    if parts.username or parts.password:
        raise InvalidPool(fields={"url": [_("Give the password as the secret, not in the address.")]})
    try:
        own_machine.check_host(parts.hostname)
    except Forbidden as error:
        raise InvalidPool(fields={"url": [str(error)]}) from None
    for name, is_needed in (("subject", kind.needs_subject), ("consumer_group", kind.needs_group)):
        if is_needed and not getattr(row, name):
            raise InvalidPool(fields={name: [_("This kind of queue needs it.")]})
    if not kind.tells_arrivals and row.item_seconds is None:
        raise InvalidPool(
            fields={"item_seconds": [_("This kind of queue does not show what an item takes: say it.")]}
        )
