"""Jobs of a worker: what clients ask of them over HTTP, and the runner that takes them from the queue."""

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, NamedTuple

from serving.jobs.errors import (
    JobConflict,
    JobError,
    JobLeaseLost,
    JobMissing,
    QueueFull,
    QueueUnreachable,
)
from serving.jobs.groups import GroupAssignment, WorkerGroup
from serving.jobs.job import JobPolicy, QueuedJob
from serving.jobs.queue import JobQueue
from serving.runtime.errors import PROBLEM_TYPE, Problem

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 0.25
GROUP_LOOK_SECONDS = 0.5
WAIT_SECONDS = 1.0
RENEW_EVERY_SECONDS = 1.0
MAX_RESULT_BYTES = 64 * 2**20
STATUSES: Mapping[type[JobError], tuple[int, str]] = {
    JobMissing: (404, "Not found"),
    JobConflict: (409, "Conflict"),
    QueueFull: (429, "Overloaded"),
    QueueUnreachable: (503, "Queue unreachable"),
}
Runner = Callable[[QueuedJob, bytes, Callable[[float, str], None], float], Awaitable[tuple[int, str, bytes]]]
"""The job, its body, its progress, and the seconds that it has; status, type and body of the answer."""
_BELOW = re.compile(r"(/.+)/([0-9a-f]{32})(?:/(result|events|retry))?")
_PREFIX = re.compile(r"(/[A-Za-z0-9._-]{1,128}){0,4}")


class JobRoutes:
    """Jobs of one service over HTTP: any of its workers answers for any job. `prefix`, of a request: what a
    gateway has taken off its path."""

    def __init__(self, queue: JobQueue, *, service: str, target: str, version: str) -> None:
        self._queue = queue
        self._service, self._target, self._version = service, target, version

    async def submit(
        self,
        path: str,
        query: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        policy: Mapping[str, Any],
        prefix: str,
        deadline_seconds: float | None,
    ) -> tuple[dict[str, Any], str]:
        """Its document and its address. Raises Problem."""
        with _told():
            job = await self._queue.submit(
                service=self._service,
                target=self._target,
                version=self._version,
                path=path,
                query=query,
                headers=headers,
                body=body,
                policy=JobPolicy(**policy),
                deadline_seconds=deadline_seconds,
            )
        return document(job, prefix), f"{_checked(prefix)}{job.path}/{job.id}"

    async def find(self, asked: "JobPath") -> QueuedJob:
        """Raises Problem: an id is known by its service and route alone."""
        with _told():
            job = await self._queue.get(asked.id)
        if job.service != self._service or not asked.path.endswith(job.path):
            raise Problem(404, "Not found", "There is no such job.")
        return job

    async def ask(
        self, job: QueuedJob, method: str, below: str, *, prefix: str
    ) -> tuple[int, str, bytes | dict[str, Any]]:
        """Status, type and body. Raises Problem."""
        with _told():
            if method == "GET" and not below:
                return 200, "application/json", document(job, prefix)
            if method == "GET" and below == "result":
                return await self._result(job)
            if method == "DELETE" and not below:
                return 202, "application/json", document(await self._queue.cancel(job.id), prefix)
            if method == "POST" and below == "retry":
                again = await self._queue.retry(job.id, target=self._target, version=self._version)
                return 202, "application/json", document(again, prefix)
        raise Problem(405, "Method not allowed", f"{method} is not possible here.")

    async def follow(self, job: QueuedJob, *, prefix: str) -> AsyncIterator[dict[str, Any]]:
        """Its document each time that it changes, until it is over."""
        yield document(job, prefix)
        while not job.is_over:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            try:
                now = await self._queue.store.load(job.id)
            except QueueUnreachable:
                continue
            if now is None:
                return
            if now.revision != job.revision:
                yield document(now, prefix)
            job = now

    async def _result(self, job: QueuedJob) -> tuple[int, str, bytes]:
        if not job.is_over or job.status is None:
            raise Problem(409, "Not finished", f"The job is {job.state}.")
        if job.result_type:
            return job.status, job.result_type, await self._queue.store.result(job.id)
        raise Problem(job.status, "No result", job.error)


class JobPath(NamedTuple):
    """Path of a job: of its route, its id, and what is asked for below it."""

    path: str
    id: str
    below: str


def job_path(path: str) -> JobPath | None:
    """Return what the path says of a job; None: it cannot be one's."""
    match = _BELOW.fullmatch(path)
    return JobPath(match[1], match[2], match[3] or "") if match else None


def document(job: QueuedJob, prefix: str = "") -> dict[str, Any]:
    """Return what clients see of a job."""
    address = f"{_checked(prefix)}{job.path}/{job.id}"
    shown: dict[str, Any] = {
        "id": job.id,
        "state": job.state,
        "version": job.version,
        "progress": round(job.progress, 4),
        "message": job.message,
        "attempts": job.attempts,
        "created_at": job.created_at,
        "deadline": job.deadline,
        "links": {
            "self": address,
            **{name: f"{address}/{name}" for name in ("result", "events", "retry")},
        },
    }
    if job.error:
        shown["error"] = job.error
    return shown if job.status is None else shown | {"status": job.status}


def _checked(prefix: str) -> str:
    return prefix if _PREFIX.fullmatch(prefix) else ""


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except JobError as error:
        status, title = STATUSES[type(error)]
        raise Problem(status, title, str(error)) from None


class QueuedJobRunner:
    """Takes jobs while a process for them is idle, and keeps their leases while they run.

    Where its pool has groups, it takes them while its worker is offline and serves no request (`is_quiet`).
    A worker that goes online takes no more; a job that then runs for longer than its policy lets it goes
    back into the queue. While the queue does not answer, the group stays as it was.
    """

    def __init__(
        self,
        queue: JobQueue,
        *,
        service: str,
        target: str,
        worker: str,
        run: Runner,
        is_leaving: Callable[[], bool] = lambda: False,
        is_quiet: Callable[[], bool] = lambda: True,
    ) -> None:
        self._queue, self._pool, self._worker, self._run = queue, (service, target), worker, run
        self._is_leaving, self._is_quiet = is_leaving, is_quiet
        self._running: set[asyncio.Task[None]] = set()
        self._background: list[asyncio.Task[None]] = []
        self._assignment: GroupAssignment | None = None
        self._online_since: float | None = None

    def start(self, processes: int) -> None:
        if processes:
            self._background = [
                asyncio.create_task(self._follow_group()),
                asyncio.create_task(self._serve(asyncio.Semaphore(processes))),
            ]

    @property
    def group(self) -> WorkerGroup | None:
        """Return the group of its worker; None: its pool has none, or it takes no jobs."""
        return self._assignment.group_of(self._worker) if self._assignment else None

    @property
    def running(self) -> int:
        """Count the jobs that run."""
        return len(self._running)

    async def _follow_group(self) -> None:
        while True:
            await self._read_group()
            await asyncio.sleep(GROUP_LOOK_SECONDS)

    async def _read_group(self) -> None:
        try:
            self._assignment = await self._queue.store.assignment(self._pool)
        except QueueUnreachable as error:
            log.debug("the group stays: %s", error)
        if self.group is not WorkerGroup.ONLINE:
            self._online_since = None
        elif self._online_since is None:
            self._online_since = asyncio.get_running_loop().time()

    def _may_take(self) -> bool:
        if self._is_leaving() or self.group is WorkerGroup.ONLINE:
            return False
        return self.group is None or self._is_quiet()

    def _must_requeue(self) -> bool:
        if self._assignment is None or self._online_since is None:
            return False
        waited = asyncio.get_running_loop().time() - self._online_since
        return waited >= self._assignment.wait_seconds

    async def drain(self, grace_seconds: float) -> None:
        """Take no more; what still runs after that time goes back into the queue."""
        for task in self._background:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=grace_seconds)
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _serve(self, free: asyncio.Semaphore) -> None:
        while True:
            await free.acquire()
            try:
                job = await self._next()
            except BaseException:
                free.release()
                raise
            task = asyncio.create_task(self._work(job))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
            task.add_done_callback(lambda _: free.release())

    async def _next(self) -> QueuedJob:
        while True:
            try:
                if not self._may_take():
                    await asyncio.sleep(LOOK_EVERY_SECONDS)
                    continue
                if (job := await self._queue.take(self._pool, worker=self._worker)) is not None:
                    return job
                await self._queue.store.wait(self._pool, WAIT_SECONDS)
            except QueueUnreachable as error:
                log.warning("%s", error)
                await asyncio.sleep(WAIT_SECONDS)

    async def _work(self, job: QueuedJob) -> None:
        said = {"progress": 0.0, "message": ""}

        def told(progress: float, message: str) -> None:
            said.update(progress=progress, message=message)

        try:
            body = await self._queue.store.body(job.id)
            now = await self._queue.store.now()
            work = asyncio.create_task(self._answer(job, body, told, job.deadline - now))
            keeping = asyncio.create_task(self._keep(job, said, work))
            try:
                status, kind, answer = await work
            except asyncio.CancelledError:
                # Cancelled by its client, or the lease is lost, or else this worker leaves.
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    await self._queue.give_back(job)
                    raise
                if keeping.done() and not keeping.cancelled() and keeping.result():
                    await self._queue.give_back(job)
                    return
                status, kind, answer = 499, "", b"Cancelled."
            finally:
                work.cancel()
                keeping.cancel()
            await self._finish(job, status, kind, answer)
        except JobLeaseLost:
            log.warning("job %s: its lease was lost, so that its answer does not count", job.id)
        except QueueUnreachable as error:
            log.warning("job %s will be taken again: %s", job.id, error)

    async def _answer(
        self, job: QueuedJob, body: bytes, told: Callable[[float, str], None], seconds: float
    ) -> tuple[int, str, bytes]:
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                status, kind, answer = await self._run(job, body, told, seconds)
        except TimeoutError:
            problem = Problem(504, "Deadline exceeded", "Its deadline passed.")
        except Problem as raised:
            problem = raised
        else:
            if len(answer) <= MAX_RESULT_BYTES:
                return status, kind, answer
            problem = Problem(
                422,
                "Result too large",
                f"A result has at most {MAX_RESULT_BYTES} bytes: store it, and answer where it is.",
            )
        return problem.status, PROBLEM_TYPE, json.dumps(problem.document()).encode()

    async def _keep(self, job: QueuedJob, said: Mapping[str, Any], work: "asyncio.Task[Any]") -> bool:
        """Renew the lease with the progress, until the work is done, nobody wants it, or its worker has
        served requests for too long: then the job goes back into the queue, and this returns True."""
        while True:
            if self._must_requeue():
                work.cancel()
                return True
            try:
                if (await self._queue.renew(job, **said)).is_cancelled:
                    work.cancel()
                    return False
            except JobLeaseLost:
                work.cancel()
                return False
            except QueueUnreachable:
                pass
            await asyncio.sleep(RENEW_EVERY_SECONDS if self.group is None else GROUP_LOOK_SECONDS)

    async def _finish(self, job: QueuedJob, status: int, kind: str, answer: bytes) -> None:
        """The answer counts as long as nobody else has taken the job: a Redis that restarts is waited for."""
        while True:
            try:
                await self._queue.finish(job, status=status, result_type=kind, result=answer)
                return
            except QueueUnreachable as error:
                log.warning("job %s is done, but cannot be finished: %s", job.id, error)
                await asyncio.sleep(WAIT_SECONDS)
