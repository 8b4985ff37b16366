"""How long to wait before something is tried again: by our own rule, and by what the other side asks for."""

import random
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime


def backoff(
    failures: int, *, first: timedelta, longest: timedelta, factor: int = 2, jitter: float = 0.0
) -> timedelta:
    """After so many failures in a row, one at least: `first`, and `factor` times as long with each further
    one, up to `longest`; give or take a share of `jitter`, so that many do not come back at once.
    """
    try:
        plain = min(first * float(factor) ** min(failures - 1, 64), longest)
    except OverflowError:
        plain = longest
    if not jitter:
        return plain
    return plain * random.uniform(1 - jitter, 1 + jitter)  # noqa: S311  (spreads load, guards nothing)


def retry_after(value: str, *, now: datetime, longest: timedelta) -> timedelta | None:
    """Read a `Retry-After` (RFC 9110), in seconds or as a date; None when it says nothing."""
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(timedelta(seconds=int(text[:9])), longest)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(timedelta(0), min(moment - now, longest))
