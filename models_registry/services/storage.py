"""What is done to the whole store."""

from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from accounts.services import require_everywhere
from accounts.states import Right
from common import audit
from common.actor import Actor
from common.reconcile import kernel
from models_registry.errors import Busy, WrongState
from models_registry.models import Check, Collection, Finding
from models_registry.services import checks
from models_registry.states import FindingState

MOST_GRACE_HOURS = 8_760


def start_collection(*, actor: Actor, reason: str = "", grace_seconds: int | None = None) -> Collection:
    """Delete what no version has needed for the grace time; it goes on after the answer.

    `grace_seconds`: the installation's unless given. One that is stuck is tried again. Raises
    NotAdministrator, Busy.
    """
    require_everywhere(actor, Right.FLEET_OPERATE)
    why = checks.reason(reason)
    stuck = Collection.objects.running().filter(stuck_at__isnull=False).first()
    if stuck is not None:
        with transaction.atomic():
            if not kernel.revive(stuck):
                raise Busy("A collection is under way already.")
            audit.record(actor, "store.collect", subject=stuck, reason=why)
        return Collection.objects.get(pk=stuck.pk)
    return begin_collection(actor=actor, reason=why, grace_seconds=grace_seconds)


def begin_collection(*, actor: Actor, reason: str = "", grace_seconds: int | None = None) -> Collection:
    """Raises Busy."""
    grace = settings.SLIPWAY_STORE_GRACE_SECONDS if grace_seconds is None else grace_seconds
    row = Collection(asked_by_name=actor.name, reason=reason, grace_seconds=grace, began_at=kernel.clock())
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            audit.record(actor, "store.collect", subject=row, reason=reason)
            kernel.wake(row)
    except IntegrityError:
        raise Busy("A collection is under way already.") from None
    return row


def start_check(*, actor: Actor, reason: str = "") -> Check:
    """Read the whole store and compare; it goes on after the answer. One that is stuck is tried again.

    Raises NotAdministrator, Busy.
    """
    require_everywhere(actor, Right.FLEET_OPERATE)
    why = checks.reason(reason)
    stuck = Check.objects.running().filter(stuck_at__isnull=False).first()
    if stuck is not None:
        with transaction.atomic():
            if not kernel.revive(stuck, launches=0, launched_at=None):
                raise Busy("A check is under way already.")
            audit.record(actor, "store.check", subject=stuck, reason=why)
        return Check.objects.get(pk=stuck.pk)
    return begin_check(actor=actor, reason=why)


def begin_check(*, actor: Actor, reason: str = "") -> Check:
    """Raises Busy."""
    row = Check(
        asked_by_name=actor.name,
        reason=reason,
        bytes_per_second=settings.SLIPWAY_STORE_CHECK_BYTES_PER_SECOND,
        began_at=kernel.clock(),
    )
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            audit.record(actor, "store.check", subject=row, reason=reason)
            kernel.wake(row)
    except IntegrityError:
        raise Busy("A check is under way already.") from None
    return row


def retry_repair(*, actor: Actor, finding: Finding, reason: str = "") -> Finding:
    """Ask the sources of a blob that is lost, or whose repair is stuck, once more.

    Raises NotAdministrator, WrongState.
    """
    require_everywhere(actor, Right.FLEET_OPERATE)
    why = checks.reason(reason)
    with transaction.atomic():
        fresh: dict[str, Any] = {"launches": 0, "launched_at": None}
        aside = {"state": FindingState.ASIDE, "reason": "", "tried": [], **fresh}
        is_lost = kernel.interrupt(finding, where={"state": FindingState.LOST}, **aside)
        if not is_lost and not kernel.revive(finding, **fresh):
            raise WrongState(f"The {finding} is {finding.state}; only what is lost can be looked for again.")
        audit.record(actor, "finding.retry", subject=finding, reason=why)
    return Finding.objects.get(pk=finding.pk)
