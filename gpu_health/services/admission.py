"""What guards let pass, exactly: the pool's row is held while they are asked and a slot is taken."""

from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F

from common import audit, events
from common.reconcile import LeaseLost
from gpu_health.events import HealingBreakerOpened
from gpu_health.healing.facts import GuardRefusal
from gpu_health.healing.guards import Gate, opens_breaker, refusal
from gpu_health.incident_facts import ACTOR, guard_facts, policy
from gpu_health.models import HealingPool, HealingSlot, Incident


def admit(incident: Incident, gates: frozenset[Gate], now: datetime) -> GuardRefusal | None:
    """Ask the guards of these gates. Where they let it pass, what they count is written with their answer:
    the cordon and that the machine leaves service, or the slot and the repair.

    Raises LeaseLost when another worker has the incident by now.
    """
    with transaction.atomic():
        pool = _held(incident.pool)
        facts = guard_facts(incident, pool, policy(), now)
        limits = policy().figures
        refused = refusal(facts, limits, gates)
        if refused is not None:
            HealingSlot.objects.filter(incident=incident).delete()
            if Gate.QUARANTINE in gates:
                # A worker that died after it was let through had taken a place.
                Incident.objects.filter(pk=incident.pk, fence=incident.fence).update(is_quarantined=False)
            if (
                refused.guard == "breaker"
                and not pool.breaker_opened_at
                and opens_breaker(facts.pool, limits)
            ):
                _open(pool, refused.words, now)
            return refused
        written: dict[str, Any] = {}
        if Gate.QUARANTINE in gates:
            written |= {"quarantined_at": now, "is_quarantined": True}
        if Gate.REPAIR in gates:
            written |= {"act_began_at": now}
            if incident.drill_id is None:
                _take_slot(pool, incident, limits.slots(facts.pool.machines), now)
        if written and not Incident.objects.filter(pk=incident.pk, fence=incident.fence).update(**written):
            raise LeaseLost
        return None


def release(incident: Incident) -> None:
    """Its slot is free again."""
    HealingSlot.objects.filter(incident=incident).delete()


def note_drain(incident: Incident, now: datetime) -> None:
    """A drain begins: the next one of the pool keeps its distance."""
    Incident.objects.filter(pk=incident.pk, fence=incident.fence).update(drained_at=now)


def note_paused_operands(incident: Incident) -> None:
    """Written before they are paused, so that they come back whoever dies meanwhile. Raises LeaseLost."""
    held = Incident.objects.filter(pk=incident.pk, fence=incident.fence)
    if not held.update(has_operands_paused=True):
        raise LeaseLost
    incident.has_operands_paused = True


def _held(name: str) -> HealingPool:
    """The pool's row, locked until the end of the transaction: by the write, on every database."""
    if not HealingPool.objects.filter(name=name).update(serial=F("serial") + 1):
        try:
            with transaction.atomic():
                HealingPool.objects.create(name=name)
        except IntegrityError:
            pass
        HealingPool.objects.filter(name=name).update(serial=F("serial") + 1)
    return HealingPool.objects.get(name=name)


def _take_slot(pool: HealingPool, incident: Incident, slots: int, now: datetime) -> None:
    if HealingSlot.objects.filter(incident=incident).exists():
        return
    taken = set(HealingSlot.objects.filter(pool=pool).values_list("number", flat=True))
    number = next(one for one in range(slots + len(taken)) if one not in taken)
    HealingSlot.objects.create(pool=pool, number=number, incident=incident, taken_at=now)


def _open(pool: HealingPool, why: str, now: datetime) -> None:
    HealingPool.objects.filter(pk=pool.pk).update(breaker_opened_at=now, breaker_reason=why)
    audit.record(ACTOR, "gpu_healing.breaker_opened", subject=pool, reason=why)
    events.publish(HealingBreakerOpened(pool.pk))
