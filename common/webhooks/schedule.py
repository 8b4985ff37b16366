"""When a delivery is tried again, and for how long at all."""

from datetime import timedelta

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
