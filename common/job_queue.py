"""The queue of jobs, asked by synchronous code."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from asgiref.sync import async_to_sync
from django.conf import settings
from django.utils.translation import gettext as _

from common.errors import Conflict, Missing, Unavailable
from serving.jobs.errors import JobConflict, JobMissing, QueueUnreachable
from serving.jobs.queue import JobQueue
from serving.jobs.redis_store import RedisJobStore

Answer = TypeVar("Answer")


def ask_queue(question: Callable[[JobQueue, RedisJobStore], Awaitable[Answer]]) -> Answer:
    """Raises Unavailable, Missing, Conflict."""

    async def asked() -> Answer:
        store = RedisJobStore.at(settings.SLIPWAY_JOBS_URL)
        try:
            return await question(JobQueue(store), store)
        finally:
            await store.close()

    try:
        return async_to_sync(asked)()
    except QueueUnreachable as error:
        raise Unavailable(_("The queue of jobs does not answer. Try again shortly.")) from error
    except JobMissing as error:
        raise Missing(_("The queue has forgotten this job.")) from error
    except JobConflict as error:
        raise Conflict(str(error)) from error
