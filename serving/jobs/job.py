"""One job: its states and the rules by which it moves. Pure: the clock is an argument.

A lease is a moment in `due_at`: until then the job is its worker's; after it anybody may act on the job.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, Self

OnRelease = Literal["next", "same"]
MAX_BACKOFF_SECONDS = 300.0
DAY = 86_400.0


class QueuedJobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """A dead letter, where its attempts are used up: it stays with its request until it is retried or
    forgotten."""
    CANCELLED = "cancelled"


ENDED = frozenset({QueuedJobState.SUCCEEDED, QueuedJobState.FAILED, QueuedJobState.CANCELLED})


@dataclass(frozen=True, kw_only=True)
class JobPolicy:
    """Options of a route's jobs. `keep_seconds`: how long a job and its result are kept after its end.
    `on_release`: when its version is released away, a job that waits goes to the next one, or has the workers
    of the same one stay.
    """

    attempts: int = 3
    backoff_seconds: float = 1.0
    deadline_seconds: float = DAY
    keep_seconds: float = DAY
    on_release: OnRelease = "next"

    def __post_init__(self) -> None:
        """Raises ValueError."""
        for name, low, high in (
            ("attempts", 1, 100),
            ("backoff_seconds", 0, 3_600),
            ("deadline_seconds", 0.1, 365 * DAY),
            ("keep_seconds", 1, 365 * DAY),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise ValueError(f"{name} must be a number from {low} to {high}")
        if not isinstance(self.attempts, int):
            raise ValueError("attempts must be a whole number")
        if self.on_release not in ("next", "same"):
            raise ValueError('on_release must be "next" or "same"')


@dataclass(frozen=True, kw_only=True)
class QueuedJob:
    """`target`: the deployment whose workers may take it. `digest`: of its request. `status`: of its answer.
    `revision` rises with every change."""

    id: str
    service: str
    target: str
    version: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    digest: str = ""
    policy: JobPolicy = JobPolicy()
    state: QueuedJobState = QueuedJobState.QUEUED
    progress: float = 0.0
    message: str = ""
    attempts: int = 0
    attempts_left: int = 1
    created_at: float = 0.0
    changed_at: float = 0.0
    ended_at: float | None = None
    deadline: float = 0.0
    due_at: float = 0.0
    worker: str = ""
    lease: str = ""
    is_cancelled: bool = False
    status: int | None = None
    result_type: str = ""
    error: str = ""
    revision: int = 1

    @property
    def is_over(self) -> bool:
        return self.state in ENDED

    # Moves; each returns the job as it is afterwards.

    def swept(self, now: float) -> "QueuedJob | None":
        """Return what becomes of it without a worker; None: nothing has to."""
        if self.is_over or self.due_at > now:
            return None
        if self.is_cancelled:
            return self.ended(QueuedJobState.CANCELLED, now)
        if self.deadline <= now:
            return self.ended(QueuedJobState.FAILED, now, status=504, error="Its deadline passed.")
        if self.state is QueuedJobState.RUNNING:
            return self.failed(now, status=503, error=f"The worker {self.worker} was lost.", delay=0.0)
        return None

    def taken(self, *, worker: str, lease: str, now: float, lease_seconds: float) -> "QueuedJob":
        """Begin another attempt; a job that may have none ends."""
        after = self.swept(now) or self
        if after.is_over or after.due_at > now:
            return after
        return after._at(
            now,
            state=QueuedJobState.RUNNING,
            progress=0.0,
            message="",
            attempts=self.attempts + 1,
            attempts_left=after.attempts_left - 1,
            worker=worker,
            lease=lease,
            due_at=now + lease_seconds,
        )

    def renewed(self, *, progress: float, message: str, now: float, lease_seconds: float) -> "QueuedJob":
        return self._at(now, progress=progress, message=message, due_at=now + lease_seconds)

    def failed(self, now: float, *, status: int, error: str, delay: float | None = None) -> "QueuedJob":
        """Queue it again while it has attempts, after a pause that doubles (or `delay`); else end it."""
        if self.attempts_left < 1:
            return self.ended(QueuedJobState.FAILED, now, status=status, error=error)
        pause = self.policy.backoff_seconds * 2.0 ** max(0, self.attempts - 1) if delay is None else delay
        return self._at(
            now,
            state=QueuedJobState.QUEUED,
            error=error,
            due_at=now + min(pause, MAX_BACKOFF_SECONDS),
            lease="",
            worker="",
        )

    def returned(self, now: float) -> "QueuedJob":
        """Return it to the queue from a worker that leaves, as if it had not been taken."""
        return self._at(
            now,
            state=QueuedJobState.QUEUED,
            attempts=self.attempts - 1,
            attempts_left=self.attempts_left + 1,
            progress=0.0,
            message="",
            due_at=now,
            lease="",
            worker="",
        )

    def ended(
        self,
        state: QueuedJobState,
        now: float,
        *,
        status: int | None = None,
        result_type: str = "",
        error: str = "",
    ) -> "QueuedJob":
        done = {"progress": 1.0} if state is QueuedJobState.SUCCEEDED else {}
        return self._at(
            now,
            state=state,
            ended_at=now,
            lease="",
            status=status,
            result_type=result_type,
            error=error,
            **done,
        )

    def cancelled(self, now: float) -> "QueuedJob":
        """Cancel it at once while it waits; else its worker learns of it when it renews the lease."""
        if self.state is QueuedJobState.QUEUED:
            return self.ended(QueuedJobState.CANCELLED, now)
        return self._at(now, is_cancelled=True)

    def retried(self, now: float) -> "QueuedJob":
        return self._at(
            now,
            state=QueuedJobState.QUEUED,
            attempts_left=self.policy.attempts,
            progress=0.0,
            message="",
            ended_at=None,
            deadline=now + self.policy.deadline_seconds,
            due_at=now,
            worker="",
            lease="",
            is_cancelled=False,
            status=None,
            result_type="",
            error="",
        )

    def moved(self, now: float, *, target: str, version: str) -> "QueuedJob":
        return self._at(now, target=target, version=version)

    def _at(self, now: float, **changes: object) -> "QueuedJob":
        return replace(self, changed_at=now, **changes)  # type: ignore[arg-type]

    def encode(self) -> str:
        return json.dumps(dataclasses.asdict(self), separators=(",", ":"))

    @classmethod
    def decode(cls, text: str | bytes) -> Self:
        """Ignores what it does not know: workers of two releases share a queue."""
        data = json.loads(text)
        known = {one.name for one in dataclasses.fields(cls)}
        policies = {one.name for one in dataclasses.fields(JobPolicy)}
        policy = JobPolicy(**{name: one for name, one in data.pop("policy").items() if name in policies})
        kept = {name: one for name, one in data.items() if name in known}
        return cls(**kept | {"policy": policy, "state": QueuedJobState(data["state"])})
