"""The desk of a worker: takes requests in, gives them a slot, and keeps the books."""

import asyncio
import dataclasses
import logging
import math
import time
from bisect import bisect_left
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

from serving.busy import BusyRate, Recent
from serving.openai import RequestFault
from serving.protocol import LENGTH_BOUNDS, Counters, Latency, WorkerState

log = logging.getLogger(__name__)

Clock = Callable[[], float]
LONGEST_RETRY_AFTER_SECONDS = 30
CLIENT_CLOSED_REQUEST = 499


@dataclass(frozen=True, kw_only=True)
class ModelCall:
    """A call of a model. Times are nanoseconds of the machine's monotonic clock."""

    method: str
    sent_at: int
    queued: int
    worked: int
    batch_size: int


@dataclass(frozen=True, kw_only=True)
class RequestWork:
    """Times of a request to a service: its handler in one of the CPU processes, and the models that it
    called. Times are nanoseconds of the machine's monotonic clock.
    """

    process: str
    began_at: int
    ended_at: int
    calls: Sequence[ModelCall] = ()


class Progress:
    """The Meter of one request: when its tokens came, and how many."""

    seated_at: float | None = None
    first_token_at: float | None = None
    last_token_at: float | None = None
    prompt_tokens = 0
    completion_tokens = 0
    work: RequestWork | None = None
    is_truncated = False
    """Whether the answer ended at the limit of its tokens (`finish_reason` is `length`)."""

    def __init__(
        self, clock: Clock = time.monotonic, *, chosen_by: str = "gateway", traceparent: str = ""
    ) -> None:
        """`chosen_by`: see `serving.protocol.CHOSEN_BY_HEADER`. `traceparent`: W3C's, as it came."""
        self._clock = clock
        self.chosen_by = chosen_by
        self.traceparent = traceparent
        self.began = clock()

    def produced(self, tokens: int) -> None:
        if tokens > 0:
            self.last_token_at = self._clock()
            self.first_token_at = self.first_token_at or self.last_token_at
            self.completion_tokens += tokens

    def used(self, *, prompt_tokens: int, completion_tokens: int) -> None:
        self.prompt_tokens, self.completion_tokens = prompt_tokens, completion_tokens

    def finished(self, reason: str) -> None:
        self.is_truncated = self.is_truncated or reason == "length"

    def seated(self) -> None:
        """Note that the request has its slot."""
        self.seated_at = self._clock()

    @property
    def waited(self) -> float | None:
        """Seconds until it had a slot; None: it never got one."""
        return None if self.seated_at is None else self.seated_at - self.began

    @property
    def elapsed(self) -> float:
        """Seconds since the request came."""
        return self._clock() - self.began

    @property
    def time_to_first_token(self) -> float | None:
        """Seconds from the request to its first token; None where there was none to see."""
        return None if self.first_token_at is None else self.first_token_at - self.began

    @property
    def time_per_output_token(self) -> float | None:
        """Mean seconds between tokens after the first."""
        if self.first_token_at is None or self.last_token_at is None or self.completion_tokens < 2:
            return None
        return (self.last_token_at - self.first_token_at) / (self.completion_tokens - 1)


class RequestOutcome(NamedTuple):
    """The end of one generation request. `code` 499: the client went away."""

    route: str
    code: int
    seconds: float
    broke_off: bool
    progress: Progress


class LengthCounts:
    """Texts counted by their tokens; see `serving.protocol.Heartbeat`."""

    def __init__(self) -> None:
        self._counts: list[int] = []

    def add(self, tokens: int) -> None:
        place = bisect_left(LENGTH_BOUNDS, tokens)
        self._counts += [0] * (place + 1 - len(self._counts))
        self._counts[place] += 1

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(self._counts)


class Desk:
    """State, slots and queue of one worker. Lives on one event loop."""

    def __init__(self, *, slots: int, queue_limit: int, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self.slots = slots
        self._queue_limit = queue_limit
        self._free = slots
        self._waiting: deque[Callable[[], None]] = deque()
        self._busy = BusyRate(slots, now=clock())
        self._slot_seconds = Recent()
        self._ttft = Recent()
        self._tpot = Recent()
        self._observers: list[Callable[[RequestOutcome], None]] = []
        self.state = WorkerState.STARTING
        self.reason = "the model is loading"
        self._counts = dataclasses.asdict(Counters())
        self.prompt_lengths, self.answer_lengths = LengthCounts(), LengthCounts()

    # State

    def open(self) -> None:
        """The engine has answered; a worker that is leaving already stays so."""
        if self.state is WorkerState.STARTING:
            self.state, self.reason = WorkerState.READY, ""

    def drain(self) -> None:
        if self.state is not WorkerState.FAILED:
            self.state, self.reason = WorkerState.DRAINING, "the worker is stopping"

    def fail(self, reason: str) -> None:
        self.state, self.reason = WorkerState.FAILED, reason

    # Slots

    def resize(self, slots: int) -> None:
        """Before it opens: how many slots there are, once that is known."""
        self.slots = self._free = slots
        self._busy = BusyRate(slots, now=self._clock())

    @property
    def in_flight(self) -> int:
        return self.slots - self._free

    @property
    def queue_depth(self) -> int:
        return len(self._waiting)

    @property
    def busy(self) -> float:
        return self._busy.share(now=self._clock())

    @asynccontextmanager
    async def slot(self, *, is_retried: bool = False, may_overflow: bool = False) -> AsyncIterator[None]:
        """Holds one slot; first come, first served. Raises RequestFault (429) when the queue is full.

        `is_retried`: it has waited at a worker that died. For those the queue is twice as long, or the
        survivors of a full pair would refuse all that the dead one had taken in. `may_overflow`: it is
        refused rather than made to wait.
        """
        turn = asyncio.get_running_loop().create_future()

        def begin() -> None:
            if turn.done():  # the client leaves in this moment
                self._give_back()
            else:
                turn.set_result(None)

        self.ask(begin, is_retried=is_retried, may_overflow=may_overflow)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back()
            else:
                self.withdraw(begin)
            raise
        began = self._clock()
        try:
            yield
        finally:
            self.leave(self._clock() - began)

    def ask(self, begin: Callable[[], None], *, is_retried: bool = False, may_overflow: bool = False) -> None:
        """`slot` for who cannot wait: calls `begin` with a slot, now or later; `leave` gives it back."""
        if self._free > 0:
            self._free -= 1
            self._busy.change(self.in_flight, now=self._clock())
            begin()
            return
        if may_overflow:
            raise RequestFault.overflow()
        if len(self._waiting) >= self._queue_limit * (2 if is_retried else 1):
            raise RequestFault.overloaded(
                f"All {self.slots} slots are at work and {len(self._waiting)} requests wait",
                retry_after_seconds=self._expected_wait_seconds(),
            )
        self._waiting.append(begin)

    def withdraw(self, begin: Callable[[], None]) -> None:
        """Whoever asked with it waits no longer."""
        with suppress(ValueError):
            self._waiting.remove(begin)

    def leave(self, seconds: float) -> None:
        """Gives a slot back that was held for so long."""
        self._slot_seconds.observe(seconds, now=self._clock())
        self._give_back()

    def _give_back(self) -> None:
        if self._waiting:
            self._waiting.popleft()()  # the slot changes hands without ever being free
            return
        self._free += 1
        self._busy.change(self.in_flight, now=self._clock())

    def _expected_wait_seconds(self) -> int:
        seen = self._slot_seconds.latency(now=self._clock())
        one = seen.p50_ms / 1_000 if seen else 1.0
        wait = math.ceil((len(self._waiting) + 1) * one / self.slots)
        return max(1, min(LONGEST_RETRY_AFTER_SECONDS, wait))

    # Books

    def observe(self, observer: Callable[[RequestOutcome], None]) -> None:
        """`observer` is told of every outcome."""
        self._observers.append(observer)

    def record(self, outcome: RequestOutcome) -> None:
        now, progress = self._clock(), outcome.progress
        refused = outcome.code in (429, 503)
        failed = outcome.broke_off or outcome.code >= 500
        answered = outcome.code != CLIENT_CLOSED_REQUEST
        counts = self._counts
        counts["requests"] += answered
        counts["errors"] += failed
        counts["refused"] += refused
        counts["prompt_tokens"] += progress.prompt_tokens
        counts["completion_tokens"] += progress.completion_tokens
        if outcome.code == 200 and not outcome.broke_off:
            if progress.prompt_tokens and progress.completion_tokens:
                self.prompt_lengths.add(progress.prompt_tokens)
                self.answer_lengths.add(progress.completion_tokens)
            if (ttft := progress.time_to_first_token) is not None:
                self._ttft.observe(ttft, now=now)
            if (tpot := progress.time_per_output_token) is not None:
                self._tpot.observe(tpot, now=now)
        for observer in self._observers:
            observer(outcome)

    @property
    def counters(self) -> Counters:
        return Counters(**self._counts)

    @property
    def ttft(self) -> Latency | None:
        return self._ttft.latency(now=self._clock())

    @property
    def tpot(self) -> Latency | None:
        return self._tpot.latency(now=self._clock())
