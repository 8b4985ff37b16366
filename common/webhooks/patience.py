"""When a delivery is tried again, and for how long at all."""

import random
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

MOST_TRIES = 11
"""With the delays below, the last one comes about a day after the first."""
FIRST_DELAY = timedelta(seconds=5)
LONGEST_DELAY = timedelta(hours=10)
LONGEST_PAUSE = timedelta(minutes=5)
LONGEST_ASKED = timedelta(hours=1)
"""A receiver that asks for more patience than this is tried after it all the same."""
JITTER = 0.2


def delay_after(tries: int) -> timedelta:
    """Before the next try of one delivery: 5 s, 15 s, 45 s ... 9 h, 10 h, each give or take a fifth."""
    plain = min(FIRST_DELAY * int(3 ** (tries - 1)), LONGEST_DELAY)
    return plain * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311  (spreads load, guards nothing)


def pause_after(failures: int) -> timedelta:
    """How long an endpoint that has failed so often in a row is left alone: 1 s, 2 s, 4 s ... 5 min."""
    return min(timedelta(seconds=2 ** min(failures - 1, 10)), LONGEST_PAUSE)


def asked_delay(retry_after: str, *, now: datetime) -> timedelta | None:
    """What a `Retry-After` asks for, in seconds or as a date; at most an hour, None when it says nothing."""
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return min(timedelta(seconds=int(text[:9])), LONGEST_ASKED)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(timedelta(0), min(moment - now, LONGEST_ASKED))
