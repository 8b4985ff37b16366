"""When a delivery is tried again, and for how long at all."""

from collections.abc import Mapping
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from common.retry import backoff

MOST_TRIES = 11
"""With the delays below, the last one comes about a day after the first."""
LONGEST_ASKED = timedelta(hours=1)
"""A receiver that asks to wait longer than this is tried after it all the same."""


def delay_after(tries: int) -> timedelta:
    """Before the next try of one delivery: 5 s, 15 s, 45 s ... 9 h, 10 h, each give or take a fifth."""
    return backoff(tries, first=timedelta(seconds=5), longest=timedelta(hours=10), factor=3, jitter=0.2)


def pause_after(failures: int) -> timedelta:
    """Return the pause of an endpoint that has failed so often in a row: 1 s, 2 s, 4 s ... 5 min."""
    return backoff(failures, first=timedelta(seconds=1), longest=timedelta(minutes=5))


def first_try_at(now: datetime, *, quiet_hours: Mapping[str, str] | None, digest_minutes: int) -> datetime:
    """Return when a message goes out: at the end of the digest's interval, and of the quiet hours."""
    if digest_minutes:
        length = digest_minutes * 60
        now = datetime.fromtimestamp((now.timestamp() // length + 1) * length, now.tzinfo)
    if not quiet_hours:
        return now
    zone = ZoneInfo(quiet_hours["zone"])
    begin, end = time.fromisoformat(quiet_hours["from"]), time.fromisoformat(quiet_hours["until"])
    local = now.astimezone(zone)
    clock = local.time().replace(tzinfo=None)
    is_quiet = begin <= clock < end if begin <= end else clock >= begin or clock < end
    if not is_quiet:
        return now
    day = local.date() if clock < end else local.date() + timedelta(days=1)
    return max(now, datetime.combine(day, end, zone).astimezone(now.tzinfo))
