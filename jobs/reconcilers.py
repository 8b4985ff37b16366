"""Follows the queue: rows show it, and what no worker will take is moved on or ended."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from clusters import selectors as fleet
from clusters.errors import DeploymentMissing
from clusters.states import DeploymentState
from common.errors import Unavailable
from common.job_queue import ask_queue
from common.reconcile import Effect, Operation, Recurring, StepOutcome, wait
from jobs.models import JobMirror, ServiceJob
from jobs.services import forget_jobs, mirror
from jobs.states import UNFINISHED
from releases.models import Release, Service
from releases.states import IN_MOTION
from serving.jobs.job import QueuedJob
from serving.jobs.queue import JobQueue
from serving.jobs.redis_store import RedisJobStore
from serving.jobs.store import Pool

CHANGES_AT_ONCE = 500
WHILE_UNFINISHED = timedelta(seconds=1)
GONE = "The workers of its version are gone. A retry sends it to the stable version."


class JobMirrorReconciler(Recurring[JobMirror]):
    name = "follow jobs"
    model = JobMirror
    effect = Effect.ABSOLUTE
    every = timedelta(seconds=5)

    def act(self, row: JobMirror, operation: Operation) -> None:
        try:
            cursor, jobs, pools = ask_queue(lambda queue, store: _changes(queue, store, row.cursor))
            mirror(jobs)
            JobMirror.objects.filter(pk=row.pk).update(cursor=cursor)
            for pool in pools:
                reassign_jobs(pool)
        except Unavailable:
            return  # services say so themselves, and nothing is lost
        forget_jobs()

    def observe(self, row: JobMirror, operation: Operation) -> bool:
        return ServiceJob.objects.filter(state__in=UNFINISHED).exists()

    def settle(self, row: JobMirror, seen: Any, now: datetime) -> StepOutcome:
        return wait(WHILE_UNFINISHED if seen else self.every)


async def _changes(
    queue: JobQueue, store: RedisJobStore, cursor: int
) -> tuple[int, Sequence[QueuedJob], Sequence[Pool]]:
    # A Redis that begins anew counts from 1.
    if await store.last_change() < cursor:
        cursor = 0
    changed = await store.changed(cursor, CHANGES_AT_ONCE)
    loaded = [await store.load(job_id) for _, job_id in changed]
    pools = await store.pools()
    for pool in pools:
        await queue.sweep(pool)
    return (changed[-1][0] if changed else cursor), [job for job in loaded if job], pools


def reassign_jobs(pool: Pool) -> None:
    """Move jobs of a version that is neither stable nor a candidate to the stable one.

    Those that must stay with their version (`on_release="same"`) fail when it has no workers left.
    """
    name, target = pool
    service = Service.objects.filter(name=name).select_related("stable_version__model").first()
    if service is None or service.stable_deployment in ("", target):
        return
    if Release.objects.filter(service=service, state__in=IN_MOTION, candidate_deployment=target).exists():
        return
    stable = {"target": service.stable_deployment, "version": str(service.stable_version)}
    ask_queue(lambda queue, _: queue.move(pool, **stable))
    if not _has_workers(target):
        ask_queue(lambda queue, _: queue.give_up(pool, error=GONE))


def _has_workers(deployment: str) -> bool:
    try:
        return fleet.deployment_status(deployment).state != DeploymentState.REMOVED
    except DeploymentMissing:
        return False
