"""Refused exchanges in the audit record: the first at once, the rest of an hour as one entry with a count.

Anybody can send tokens that are refused, as fast as they like; the record is signed and is kept for good.
"""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F

from common import clock
from common.actor import Actor
from common.audit import record
from identity.models import RefusedExchange

EVERY = timedelta(hours=1)
MAX_REASONS = 5
"""Of one address that are told apart."""
MAX_ROWS = 1_000
OTHERS = "Further reasons, which are not told apart."
ACTION = "token.exchange_refused"


def note_refusal(*, address: str, account: str, reason: str) -> None:
    key = {"address": address, "reason": reason[:500]}
    with transaction.atomic():
        if _count(key):
            return
        if RefusedExchange.objects.filter(address=address).count() >= MAX_REASONS:
            key["reason"] = OTHERS
        if RefusedExchange.objects.count() >= MAX_ROWS:
            key = {"address": "", "reason": OTHERS}
        row, is_new = RefusedExchange.objects.get_or_create(**key, defaults={"account": account[:150]})
        if is_new:
            _record(row)
        else:
            _count(key)


def record_refusals(now: datetime | None = None) -> None:
    """Write what was counted over the past hour, and forget the addresses that have stopped."""
    now = now or clock.now()
    for row in RefusedExchange.objects.filter(since__lte=now - EVERY).order_by("pk")[:MAX_ROWS]:
        with transaction.atomic():
            rows = RefusedExchange.objects.filter(pk=row.pk, since=row.since)
            if rows.filter(count=0).delete()[0]:
                continue
            row = rows.select_for_update().get()
            _record(row, count=row.count, since=row.since.isoformat(timespec="seconds"))
            rows.update(count=0, since=now)


def _count(key: dict[str, str]) -> int:
    return RefusedExchange.objects.filter(**key).update(count=F("count") + 1)


def _record(row: RefusedExchange, **detail: object) -> None:
    caller = Actor(name="anonymous", address=row.address, via="api")
    record(caller, ACTION, subject=row.account or "any account", reason=row.reason, detail=detail)
