"""Where jobs are kept, and the kind that keeps them in this process."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from serving.jobs.errors import QueueFull
from serving.jobs.groups import GroupAssignment
from serving.jobs.job import QueuedJob

Pool = tuple[str, str]
"""Service and target: jobs of one pool are taken by the same workers."""


class JobStore(Protocol):
    """Keeps jobs. What it returns may be old by the time that it is used: `replace` finds that out.

    Every method raises QueueUnreachable.
    """

    async def now(self) -> float:
        """The clock that leases and deadlines go by: one for all workers."""

    async def add(self, job: QueuedJob, body: bytes, *, limit: int) -> QueuedJob:
        """Keep a new job and ring, or return the one that has its key already. Raises QueueFull."""

    async def load(self, job_id: str) -> QueuedJob | None: ...

    async def body(self, job_id: str) -> bytes: ...

    async def result(self, job_id: str) -> bytes: ...

    async def replace(self, before: QueuedJob, after: QueuedJob, result: bytes | None = None) -> bool:
        """Put `after`, of the revision that follows, in the place of `before`; False when that is not there
        any more. A job that is over is forgotten after its `keep_seconds`."""

    async def due(self, pool: Pool, now: float, limit: int) -> Sequence[str]:
        """Ids of jobs that anybody may act on, those that have waited longest first."""

    async def wait(self, pool: Pool, seconds: float) -> None:
        """Return when a job of the pool may be due, or after that time."""

    async def pools(self) -> Sequence[Pool]:
        """Return the pools in which jobs wait or run."""

    async def unfinished(self, pool: Pool) -> Sequence[str]: ...

    async def unfinished_count(self, pool: Pool) -> int: ...

    async def counts(self, pool: Pool) -> tuple[int, int]:
        """Count the jobs that wait or run, and those that ever came into the pool."""

    async def assignment(self, pool: Pool) -> GroupAssignment | None:
        """Return the groups of the pool's workers; None: it has none, and every worker takes jobs."""

    async def assign(self, pool: Pool, assignment: GroupAssignment) -> bool:
        """Set the groups; False where one with a higher fence is set."""

    async def unassign(self, pool: Pool) -> None: ...

    async def close(self) -> None: ...


MAX_KEPT = 1_000
MAX_KEPT_BYTES = 256 * 2**20
"""Jobs that are over, and their bytes, that stay in a process at most."""


class MemoryJobStore:
    """A `JobStore` of one process, whose jobs end with it."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._jobs: dict[str, QueuedJob] = {}
        self._bodies: dict[str, bytes] = {}
        self._results: dict[str, bytes] = {}
        self._keys: dict[tuple[str, str, str], str] = {}
        self._bells: dict[Pool, asyncio.Event] = {}
        self._groups: dict[Pool, GroupAssignment] = {}
        self._added: Counter[Pool] = Counter()

    async def now(self) -> float:
        return self._clock()

    async def add(self, job: QueuedJob, body: bytes, *, limit: int) -> QueuedJob:
        self._forget()
        key = (job.service, job.path, job.key)
        if job.key and (known := self._jobs.get(self._keys.get(key, ""))) is not None:
            return known
        if len(await self.unfinished((job.service, job.target))) >= limit:
            raise QueueFull(f"{limit} jobs wait already.")
        self._jobs[job.id], self._bodies[job.id] = job, body
        if job.key:
            self._keys[key] = job.id
        self._added[job.service, job.target] += 1
        self._ring(job)
        return job

    async def load(self, job_id: str) -> QueuedJob | None:
        self._forget()
        return self._jobs.get(job_id)

    async def body(self, job_id: str) -> bytes:
        return self._bodies.get(job_id, b"")

    async def result(self, job_id: str) -> bytes:
        return self._results.get(job_id, b"")

    async def replace(self, before: QueuedJob, after: QueuedJob, result: bytes | None = None) -> bool:
        present = self._jobs.get(before.id)
        if present is None or present.revision != before.revision:
            return False
        self._jobs[before.id] = after
        if before.is_over or before.target != after.target:
            self._added[after.service, after.target] += not after.is_over
        self._results.pop(before.id, None)
        if result is not None:
            self._results[before.id] = result
        if not after.is_over:
            self._ring(after)
        return True

    async def due(self, pool: Pool, now: float, limit: int) -> Sequence[str]:
        found = [self._jobs[one] for one in await self.unfinished(pool)]
        ready = sorted((job for job in found if job.due_at <= now), key=lambda job: job.due_at)
        return [job.id for job in ready[:limit]]

    async def wait(self, pool: Pool, seconds: float) -> None:
        bell = self._bells.setdefault(pool, asyncio.Event())
        try:
            await asyncio.wait_for(bell.wait(), seconds)
        except TimeoutError:
            return
        bell.clear()

    async def pools(self) -> Sequence[Pool]:
        return sorted({(job.service, job.target) for job in self._jobs.values() if not job.is_over})

    async def unfinished(self, pool: Pool) -> Sequence[str]:
        return [
            job.id for job in self._jobs.values() if (job.service, job.target) == pool and not job.is_over
        ]

    async def unfinished_count(self, pool: Pool) -> int:
        return len(await self.unfinished(pool))

    async def counts(self, pool: Pool) -> tuple[int, int]:
        return await self.unfinished_count(pool), self._added[pool]

    async def assignment(self, pool: Pool) -> GroupAssignment | None:
        return self._groups.get(pool)

    async def assign(self, pool: Pool, assignment: GroupAssignment) -> bool:
        before = self._groups.get(pool)
        if before is not None and before.fence > assignment.fence:
            return False
        self._groups[pool] = assignment
        return True

    async def unassign(self, pool: Pool) -> None:
        self._groups.pop(pool, None)

    async def close(self) -> None:
        pass

    def _ring(self, job: QueuedJob) -> None:
        self._bells.setdefault((job.service, job.target), asyncio.Event()).set()

    def _forget(self) -> None:
        """Forget what has had its time, and the oldest of too many."""
        over = sorted((job for job in self._jobs.values() if job.is_over), key=lambda job: job.ended_at or 0)
        size = sum(len(self._results.get(job.id, b"")) + len(self._bodies[job.id]) for job in over)
        now = self._clock()
        for number, job in enumerate(over):
            is_kept = (job.ended_at or 0) + job.policy.keep_seconds > now
            if is_kept and len(over) - number <= MAX_KEPT and size <= MAX_KEPT_BYTES:
                continue
            size -= len(self._results.pop(job.id, b"")) + len(self._bodies.pop(job.id, b""))
            del self._jobs[job.id]
            self._keys.pop((job.service, job.path, job.key), None)
