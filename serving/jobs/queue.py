"""The verbs of the queue: clients submit, ask, cancel and retry; workers take, renew and finish."""

import hashlib
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace

from serving.jobs.errors import JobConflict, JobLeaseLost, JobMissing
from serving.jobs.job import JobPolicy, QueuedJob, QueuedJobState
from serving.jobs.store import JobStore, Pool

LEASE_SECONDS = 15.0
MAX_UNFINISHED = 10_000
"""Jobs of one pool that may wait or run; more are refused."""
SWEPT_AT_ONCE = 1_000
CANDIDATES = 8
"""Due jobs that one `take` tries: another worker may be faster with each."""
NOT_KEPT = frozenset(
    {"authorization", "cookie", "connection", "content-length", "transfer-encoding", "expect"}
)
"""Headers of a submission that its handler does not see: secrets have no place in a queue."""
Change = Callable[[QueuedJob, float], QueuedJob]


class JobQueue:
    def __init__(self, store: JobStore, *, lease_seconds: float = LEASE_SECONDS) -> None:
        self.store = store
        self.lease_seconds = lease_seconds

    # Clients

    async def submit(
        self,
        *,
        service: str,
        target: str,
        version: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        body: bytes,
        policy: JobPolicy,
        deadline_seconds: float | None = None,
        limit: int = MAX_UNFINISHED,
    ) -> QueuedJob:
        """Return a new job; with a known `idempotency-key` the one that has it. Raises JobConflict where that
        was another request; QueueFull."""
        now = await self.store.now()
        key = headers.get("idempotency-key", "")[:200]
        digest = hashlib.sha256(f"{query}\n".encode() + body).hexdigest()
        job_id = uuid.uuid4().hex
        kept = {name: value for name, value in headers.items() if name not in NOT_KEPT}
        seconds = min(policy.deadline_seconds, deadline_seconds or policy.deadline_seconds)
        job = QueuedJob(
            id=job_id,
            service=service,
            target=target,
            version=version,
            path=path,
            query=query,
            # Whatever the handler does elsewhere can be known by it: attempts of one job share it.
            headers=kept | {"idempotency-key": key or job_id},
            key=key,
            digest=digest,
            policy=policy,
            attempts_left=policy.attempts,
            created_at=now,
            changed_at=now,
            due_at=now,
            deadline=now + seconds,
        )
        found = await self.store.add(job, body, limit=limit)
        if found.digest != digest:
            raise JobConflict("This Idempotency-Key belongs to another request.")
        return found

    async def get(self, job_id: str) -> QueuedJob:
        """Raises JobMissing."""
        job = await self.store.load(job_id)
        if job is None:
            raise JobMissing("There is no such job: its id is wrong, or it is forgotten by now.")
        return job

    async def cancel(self, job_id: str) -> QueuedJob:
        """A job that is over stays as it is. Raises JobMissing."""
        return await self._change(job_id, lambda job, now: job if job.is_over else job.cancelled(now))

    async def retry(self, job_id: str, *, target: str = "", version: str = "") -> QueuedJob:
        """Queue the job again, on another version where one is named: its own may be gone.

        Raises JobMissing; JobConflict when it has neither failed nor been cancelled.
        """

        def again(job: QueuedJob, now: float) -> QueuedJob:
            if job.state not in (QueuedJobState.FAILED, QueuedJobState.CANCELLED):
                raise JobConflict(f"The job is {job.state}.")
            queued = job.retried(now)
            return queued.moved(now, target=target, version=version) if target else queued

        return await self._change(job_id, again)

    # Workers

    async def take(self, pool: Pool, *, worker: str) -> QueuedJob | None:
        """The job that has waited longest, now this worker's until `due_at`; None: none is due."""
        now = await self.store.now()
        for job_id in await self.store.due(pool, now, CANDIDATES):
            job = await self.store.load(job_id)
            if job is None:
                continue
            after = job.taken(
                worker=worker, lease=uuid.uuid4().hex, now=now, lease_seconds=self.lease_seconds
            )
            if after is not job and await self._put(job, after) and after.state is QueuedJobState.RUNNING:
                return _next(job, after)
        return None

    async def renew(self, held: QueuedJob, *, progress: float, message: str) -> QueuedJob:
        """Keep the job for another while; `is_cancelled` says that nobody wants it any more.

        Raises JobLeaseLost.
        """

        def further(job: QueuedJob, now: float) -> QueuedJob:
            return _held(job, held).renewed(
                progress=progress, message=message, now=now, lease_seconds=self.lease_seconds
            )

        return await self._change(held.id, further, lost=True)

    async def finish(self, held: QueuedJob, *, status: int, result_type: str, result: bytes) -> QueuedJob:
        """End the job with its handler's answer; after a 5xx it is tried again while there are attempts.

        Raises JobLeaseLost.
        """

        def end(job: QueuedJob, now: float) -> QueuedJob:
            _held(job, held)
            if status < 400:
                return job.ended(QueuedJobState.SUCCEEDED, now, status=status, result_type=result_type)
            if job.is_cancelled or status == 499:
                return job.ended(QueuedJobState.CANCELLED, now)
            error = result[:2_000].decode(errors="replace")
            if status < 500:
                return job.ended(
                    QueuedJobState.FAILED, now, status=status, result_type=result_type, error=error
                )
            return replace(job.failed(now, status=status, error=error), result_type=result_type)

        return await self._change(held.id, end, result=result, lost=True)

    async def give_back(self, held: QueuedJob) -> QueuedJob:
        """Requeue the job of a worker that leaves; this was no attempt. Raises JobLeaseLost."""
        return await self._change(held.id, lambda job, now: _held(job, held).returned(now), lost=True)

    # Maintenance

    async def sweep(self, pool: Pool) -> None:
        """End what no worker will: passed deadlines, cancelled or abandoned jobs."""
        now = await self.store.now()
        for job_id in await self.store.due(pool, now, SWEPT_AT_ONCE):
            job = await self.store.load(job_id)
            if job is not None and (after := job.swept(now)) is not None:
                await self._put(job, after)

    async def move(self, pool: Pool, *, target: str, version: str) -> int:
        """Have the next version take what waits, unless it is to end on the same one; how many did."""
        moved = 0
        for job_id in await self.store.unfinished(pool):
            job = await self.store.load(job_id)
            if job is None or job.state is not QueuedJobState.QUEUED or job.policy.on_release != "next":
                continue
            after = job.moved(await self.store.now(), target=target, version=version)
            moved += await self._put(job, after)
        return moved

    async def give_up(self, pool: Pool, *, error: str) -> None:
        """Fail what waits in a pool without workers; it may be retried."""
        now = await self.store.now()
        for job_id in await self.store.unfinished(pool):
            job = await self.store.load(job_id)
            if job is not None and (job.state is QueuedJobState.QUEUED or job.due_at <= now):
                await self._put(job, job.ended(QueuedJobState.FAILED, now, status=410, error=error))

    async def _put(self, before: QueuedJob, after: QueuedJob, result: bytes | None = None) -> bool:
        return await self.store.replace(before, _next(before, after), result)

    async def _change(
        self, job_id: str, change: Change, *, result: bytes | None = None, lost: bool = False
    ) -> QueuedJob:
        """Compare and set, again and again until no other change came between."""
        while True:
            job = await self.store.load(job_id)
            if job is None:
                raise JobLeaseLost("It is forgotten.") if lost else JobMissing("There is no such job.")
            after = change(job, await self.store.now())
            if after is job:
                return job
            kept = result if after.is_over and after.state is not QueuedJobState.CANCELLED else None
            if await self._put(job, after, kept):
                return _next(job, after)


def _next(before: QueuedJob, after: QueuedJob) -> QueuedJob:
    return replace(after, revision=before.revision + 1)


def _held(job: QueuedJob, held: QueuedJob) -> QueuedJob:
    if job.lease != held.lease or job.state is not QueuedJobState.RUNNING:
        raise JobLeaseLost("Another worker has the job, or nobody.")
    return job
