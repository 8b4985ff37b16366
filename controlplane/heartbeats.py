"""Celery workers say that they are there, in Redis; asking each of them over the broker would be slow."""

import os
import signal
from contextlib import suppress
from typing import Any, cast

from celery.signals import heartbeat_sent, worker_before_create_process, worker_process_init

from common import clock
from common.live.redis import NotShared, ask
from controlplane.embedded.processes import die_with

KEY = "slipway:celery-workers"
"""Sorted set: host name of the worker -> Unix time of its last heartbeat."""
SILENT_AFTER_SECONDS = 10.0
"""Celery beats every 2 s (celery.worker.heartbeat.Heart)."""


def living_workers() -> list[str]:
    """Host names of the workers that were heard of in the last seconds. Raises NotShared."""
    since = clock.seconds() - SILENT_AFTER_SECONDS
    names = ask(lambda redis: redis.zrangebyscore(KEY, since, "+inf"))
    return [name.decode() for name in cast(list[bytes], names)]


@heartbeat_sent.connect
def beat(sender: Any, **_: Any) -> None:
    """Beat in the worker's main process. A Redis that is away costs beats, never the worker."""
    now = clock.seconds()
    with suppress(NotShared):
        ask(lambda redis: redis.zadd(KEY, {sender.eventer.hostname: now}))
        ask(lambda redis: redis.zremrangebyscore(KEY, "-inf", now - 60))


_worker: list[int] = []


@worker_before_create_process.connect
def be_known(**_: Any) -> None:
    """Note the main process: who comes up after its death must not take another for it."""
    _worker[:] = [os.getpid()]


@worker_process_init.connect
def end_with_the_worker(**_: Any) -> None:
    """End each pool process with its worker: a killed worker must not leave it behind with a task in hand."""
    die_with(_worker[0] if _worker else os.getppid(), signal.SIGKILL)
