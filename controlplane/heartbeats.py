"""Celery workers say that they are there, in Redis; asking each of them over the broker would be slow."""

import functools
import os
import signal
import time
from contextlib import suppress
from typing import Any, cast

import redis
from celery.signals import heartbeat_sent, worker_process_init
from django.conf import settings

from controlplane.embedded.processes import die_with

KEY = "slipway:celery-workers"
"""Sorted set: host name of the worker -> Unix time of its last heartbeat."""
SILENT_AFTER_SECONDS = 10.0
"""Celery beats every 2 s (celery.worker.heartbeat.Heart)."""


@functools.cache
def redis_client() -> redis.Redis:
    """A client that never makes its caller wait long: both its timeouts are short and it does not retry."""
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=0.8, socket_connect_timeout=0.8, retry=None
    )


def living_workers() -> list[str]:
    """Host names of the workers that were heard of in the last seconds. Raises redis.RedisError."""
    since = time.time() - SILENT_AFTER_SECONDS
    return [name.decode() for name in cast(list[bytes], redis_client().zrangebyscore(KEY, since, "+inf"))]


@heartbeat_sent.connect
def beat(sender: Any, **_: Any) -> None:
    """In the worker's main process. A Redis that is away costs beats, never the worker."""
    now = time.time()
    with suppress(redis.RedisError):
        redis_client().zadd(KEY, {sender.eventer.hostname: now})
        redis_client().zremrangebyscore(KEY, "-inf", now - 60)


@worker_process_init.connect
def end_with_the_worker(**_: Any) -> None:
    """In each pool process: a killed worker must not leave it behind with a task in hand."""
    die_with(os.getppid(), signal.SIGKILL)
