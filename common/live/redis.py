"""Connections that give up quickly: live pages are worth waiting for, a request is not to wait for Redis."""

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import redis
import redis.asyncio
import redis.sentinel
from django.conf import settings
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from common.live.sentinel import Sentinels

Answer = TypeVar("Answer")

PATIENCE_SECONDS = 1.0
SILENCE_SECONDS = 5.0
"""After Redis failed, synchronous callers leave it alone this long."""


class NotShared(Exception):
    """Redis does not answer, so that what processes share is not known here."""


@lru_cache(maxsize=4)
def _connection(url: str) -> "redis.Redis":
    """The process's pool for synchronous code. One retry, for connections that a restart has cut."""
    return client(url, patience_seconds=PATIENCE_SECONDS, retry=Retry(NoBackoff(), 1))


def client(url: str, *, patience_seconds: float, **options: Any) -> "redis.Redis":
    """A client for synchronous code with connections of its own."""
    options |= {"socket_timeout": patience_seconds, "socket_connect_timeout": patience_seconds}
    if (found := Sentinels.of(url)) is None:
        return redis.Redis.from_url(url, **options)
    asked = redis.sentinel.Sentinel(found.addresses, socket_timeout=patience_seconds)  # type: ignore[no-untyped-call]
    return asked.master_for(found.master, **found.connection, **options)  # type: ignore[no-any-return,no-untyped-call]


def async_connection(url: str) -> "redis.asyncio.Redis":
    """A client for one event loop. It never retries by itself: whoever uses it must notice a cut."""
    options: dict[str, Any] = {
        "socket_timeout": PATIENCE_SECONDS * 5,
        "socket_connect_timeout": PATIENCE_SECONDS,
        "retry": AsyncRetry(NoBackoff(), 0),
    }
    if (found := Sentinels.of(url)) is None:
        return redis.asyncio.Redis.from_url(url, **options)
    asked = redis.asyncio.Sentinel(found.addresses, socket_timeout=PATIENCE_SECONDS)  # type: ignore[no-untyped-call]
    return asked.master_for(found.master, **found.connection, **options)  # type: ignore[no-any-return]


class Breaker:
    """Remembers that Redis failed a moment ago."""

    def __init__(self) -> None:
        self._silent_until = 0.0

    @property
    def is_open(self) -> bool:
        return time.monotonic() < self._silent_until

    def trip(self) -> None:
        self._silent_until = time.monotonic() + SILENCE_SECONDS

    def reset(self) -> None:
        self._silent_until = 0.0


breaker = Breaker()
"""The process's."""


def ask(question: "Callable[[redis.Redis], Answer]") -> Answer:
    """Return what `question` gets from Redis, for synchronous code in any process.

    Raises NotShared when Redis does not answer; at once, without asking, if it did not a moment ago.
    """
    if breaker.is_open:
        raise NotShared("Redis did not answer a moment ago.")
    try:
        return question(_connection(settings.REDIS_URL))
    except (redis.RedisError, OSError) as error:
        breaker.trip()
        raise NotShared(f"Redis does not answer: {error}") from error
