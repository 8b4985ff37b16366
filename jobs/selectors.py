"""Named reads of jobs: of their rows, and of results in the queue."""

from django.utils.translation import gettext as _

from common.actor import Actor
from common.errors import Conflict, Missing
from common.job_queue import ask_queue
from jobs.models import ServiceJob
from jobs.states import UNFINISHED
from releases.models import Service
from serving.jobs.queue import JobQueue
from serving.jobs.redis_store import RedisJobStore


def service_named(actor: Actor, name: str) -> Service:
    """Raises Missing: also for one that the actor may not see."""
    service = Service.objects.for_actor(actor).select_related("team", "cluster").filter(name=name).first()
    if service is None:
        raise Missing(_("There is no such service, or you may not see it."))
    return service


def has_own_jobs(deployment: str) -> bool:
    """Whether jobs have to end on workers of this deployment."""
    unfinished = ServiceJob.objects.filter(target=deployment, state__in=UNFINISHED)
    return unfinished.filter(on_release="same").exists()


def result_of(row: ServiceJob) -> tuple[str, bytes]:
    """Return the media type and the bytes of a job's result.

    Raises Conflict before its end, Missing when the queue has forgotten the job, Unavailable.
    """
    if row.state in UNFINISHED:
        raise Conflict(_("The job is %(state)s: it has no result yet.") % {"state": row.state})

    async def read(queue: JobQueue, store: RedisJobStore) -> tuple[str, bytes]:
        job = await queue.get(row.name)
        return job.result_type or "application/octet-stream", await store.result(row.name)

    return ask_queue(read)
