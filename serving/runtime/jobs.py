"""Jobs of this worker: long work that is answered 202 and asked for later. They live as long as the
worker."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from serving.runtime.api import Problem

KEPT = 1_000
"""Jobs that have ended are forgotten beyond so many, the oldest first."""
KEPT_BYTES = 256 * 2**20
WAITING = 10_000
ENDED = ("succeeded", "failed", "cancelled")
Asked = Any
Runner = Callable[[Asked, Callable[[float, str], None]], Awaitable[tuple[int, str, bytes]]]


@dataclass(eq=False)
class Job:
    """One piece of long work. `asked`: what its handler is called with."""

    id: str
    path: str
    asked: Asked
    state: str = "queued"
    progress: float = 0.0
    message: str = ""
    attempts: int = 0
    created_at: float = field(default_factory=time.time)
    answer: tuple[int, str, bytes] | None = None
    task: "asyncio.Task[None] | None" = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def address(self) -> str:
        return f"{self.path}/{self.id}"

    def document(self) -> dict[str, Any]:
        document = {
            "id": self.id,
            "state": self.state,
            "progress": round(self.progress, 4),
            "message": self.message,
            "attempts": self.attempts,
            "created_at": self.created_at,
            "links": {name: f"{self.address}{below}" for name, below in _LINKS.items()},
        }
        return document | ({"status": self.answer[0]} if self.answer else {})

    def tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


_LINKS = {"self": "", "result": "/result", "events": "/events", "retry": "/retry"}


class Jobs:
    """All jobs, by where they are asked for."""

    def __init__(self, run: Runner) -> None:
        self._run = run
        self._jobs: dict[str, Job] = {}
        self._keys: dict[tuple[str, str], Job] = {}

    def submit(self, path: str, asked: Asked, *, key: str) -> Job:
        """The job that the key has been given to already, or a new one. Raises Problem (429)."""
        if key and (known := self._keys.get((path, key))) is not None:
            return known
        if sum(job.state not in ENDED for job in self._jobs.values()) >= WAITING:
            raise Problem(429, "Overloaded", f"{WAITING} jobs wait already.")
        job = Job(uuid.uuid4().hex, path, asked)
        self._jobs[job.address] = job
        if key:
            self._keys[path, key] = job
        self._start(job)
        self._forget()
        return job

    def find(self, path: str) -> Job | None:
        """The job that the path is of or below."""
        return self._jobs.get(path) or self._jobs.get(path.rpartition("/")[0])

    def ask(self, job: Job, method: str, below: str) -> tuple[int, str, bytes | dict[str, Any]]:
        """Status, type and body. Raises Problem: 404, 405, or 409."""
        if method == "GET" and not below:
            return 200, "application/json", job.document()
        if method == "GET" and below == "result":
            if job.answer is None:
                raise Problem(409, "Not finished", f"The job is {job.state}.")
            return job.answer
        if method == "DELETE" and not below:
            if job.task is not None and job.state not in ENDED:
                job.task.cancel()
            return 202, "application/json", job.document()
        if method == "POST" and below == "retry":
            if job.state not in ("failed", "cancelled"):
                raise Problem(409, "Not failed", f"The job is {job.state}.")
            self._start(job)
            return 202, "application/json", job.document()
        if below and below not in ("result", "events", "retry"):
            raise Problem(404, "Not found", f"A job has no {below}.")
        raise Problem(405, "Method not allowed", f"{method} is not possible here.")

    async def follow(self, job: Job) -> AsyncIterator[dict[str, Any]]:
        """Its document each time that it changes, until it has ended."""
        while True:
            changed = job.changed
            yield job.document()
            if job.state in ENDED:
                return
            await changed.wait()

    def _start(self, job: Job) -> None:
        job.state, job.answer, job.progress, job.message = "queued", None, 0.0, ""
        job.attempts += 1
        job.task = asyncio.create_task(self._work(job))
        job.tell()

    async def _work(self, job: Job) -> None:
        def told(progress: float, message: str) -> None:
            job.state, job.progress, job.message = "running", progress, message
            job.tell()

        try:
            job.answer = await self._run(job.asked, told)
            is_good = job.answer[0] < 400
            job.state = "succeeded" if is_good else "failed"
            job.progress = 1.0 if is_good else job.progress
        except asyncio.CancelledError:
            job.state = "cancelled"
        finally:
            job.tell()

    def _forget(self) -> None:
        ended = [job for job in self._jobs.values() if job.state in ENDED]
        size = sum(len(job.answer[2]) for job in ended if job.answer)
        while ended and (len(ended) > KEPT or size > KEPT_BYTES):
            job = ended.pop(0)
            size -= len(job.answer[2]) if job.answer else 0
            del self._jobs[job.address]
            self._keys = {key: kept for key, kept in self._keys.items() if kept is not job}
