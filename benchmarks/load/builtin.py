"""The built-in load engine: asyncio over plain sockets, an absolute schedule, no cap on what is in flight."""

import asyncio
import gc
import math
import multiprocessing
import os
import resource
import time
from collections.abc import AsyncIterator, Sequence
from multiprocessing.connection import Connection

from benchmarks.load.engine import LoadTarget, TooFewCores
from benchmarks.load.max_rate import BrokenTargets
from benchmarks.load.openai import StreamedAnswer, body_of, path_of, plain_usage
from benchmarks.load.prompts import TokenRatio, prompt_of
from benchmarks.load.records import RequestRecord, WindowRecord
from benchmarks.load.scenario import LoadScenario
from benchmarks.load.schedule import PlannedRequest, schedule, window_seconds
from benchmarks.load.sockets import BadAnswer, Connections

REQUEST_CPU_SECONDS, TOKEN_CPU_SECONDS = 0.6e-3, 20e-6
"""Of a core, for each request and each streamed token: twice what was measured on a quiet one."""
MOST_BUSY = 0.5
"""Share of a core that is planned for: above, sends come late."""
_HEAD_START_SECONDS = 0.1


class BuiltinEngine:
    name = "builtin"

    def check(self, scenario: LoadScenario) -> None:
        """Raises TooFewCores."""
        if not scenario.is_closed_loop:
            processes(scenario, max(scenario.rates))

    def measure(
        self,
        scenario: LoadScenario,
        target: LoadTarget,
        ratio: TokenRatio,
        *,
        rate: float,
        window: int,
        broken: BrokenTargets | None = None,
    ) -> WindowRecord:
        """Send the requests of one window. Several processes do not end early: none sees all answers."""
        planned = schedule(scenario, rate, window=window)
        shares = 1 if scenario.is_closed_loop else processes(scenario, rate)
        record = WindowRecord(
            window=window, rate=rate, seconds=window_seconds(scenario, rate, planned), began_at=time.time()
        )
        job = _Share(scenario, target, ratio, rate, window)
        began = time.monotonic()
        if shares == 1:
            job.broken = broken
            record.requests, record.client_cpu = job.run(planned, time.monotonic() + _HEAD_START_SECONDS)
        else:
            found = _in_processes(job, [planned[place::shares] for place in range(shares)])
            record.requests = sorted((one for some, _ in found for one in some), key=lambda one: one.number)
            record.client_cpu = max(cpu for _, cpu in found)
        record.took = time.monotonic() - began - _HEAD_START_SECONDS
        if not scenario.is_closed_loop and len(record.requests) < len(planned):
            record.seconds = planned[len(record.requests)].at
        return record


def processes(scenario: LoadScenario, rate: float, cores: int | None = None) -> int:
    """Return how many processes of a core each make this load. Raises TooFewCores."""
    cores = cores or len(os.sched_getaffinity(0))
    needed = _cores_at(scenario, rate)
    if needed > cores:
        raise TooFewCores.of(rate, _streamed_tokens(scenario), needed, cores)
    return needed


def cores_for(scenario: LoadScenario) -> int:
    """Return how many cores the load takes at its highest rate."""
    return 1 if scenario.is_closed_loop else _cores_at(scenario, max(scenario.rates))


def _cores_at(scenario: LoadScenario, rate: float) -> int:
    each = REQUEST_CPU_SECONDS + _streamed_tokens(scenario) * TOKEN_CPU_SECONDS
    return max(1, math.ceil(rate * each / MOST_BUSY))


def _streamed_tokens(scenario: LoadScenario) -> float:
    return scenario.output.mean if scenario.streaming else 0


class _Share:
    """The part of a window that one process sends."""

    def __init__(
        self, scenario: LoadScenario, target: LoadTarget, ratio: TokenRatio, rate: float, window: int
    ) -> None:
        self.scenario, self.target, self.ratio = scenario, target, ratio
        self.rate, self.window = rate, window
        self.broken: BrokenTargets | None = None
        self.connections: Connections

    def run(self, planned: Sequence[PlannedRequest], start: float) -> tuple[list[RequestRecord], float]:
        """Records, and the share of the core that they took. `start`: by the monotonic clock."""
        # A collection in mid-window is a pause of every stream.
        gc.collect()
        gc.disable()
        before, began = _cpu_seconds(), time.monotonic()
        try:
            records = asyncio.run(self._send_all(planned, start))
        finally:
            gc.enable()
        return records, (_cpu_seconds() - before) / max(time.monotonic() - began, 1e-6)

    async def _send_all(self, planned: Sequence[PlannedRequest], start: float) -> list[RequestRecord]:
        bodies = self._bodies(planned)
        # Prompts are made before the first is due, however many.
        self.start = max(start, time.monotonic() + _HEAD_START_SECONDS)
        self.connections = Connections(self.target.addresses)
        try:
            if self.scenario.is_closed_loop:
                return await self._closed_loop(planned, bodies)
            return await self._open_loop(planned, bodies)
        finally:
            await self.connections.close()

    def _bodies(self, planned: Sequence[PlannedRequest]) -> "list[bytes] | None":
        return [self._body(one) for one in planned] if len(planned) <= 20_000 else None

    def _body(self, planned: PlannedRequest) -> bytes:
        prompt = prompt_of(
            planned,
            self.ratio,
            shared_prefix=self.scenario.shared_prefix,
            prefix_seed=self.scenario.prefix_seed(self.window),
        )
        return body_of(self.scenario, self.target.model, prompt, planned.output_tokens)

    async def _open_loop(
        self, planned: Sequence[PlannedRequest], bodies: list[bytes] | None
    ) -> list[RequestRecord]:
        tasks: list[asyncio.Task[RequestRecord]] = []
        decided = 0
        for place, one in enumerate(planned):
            if (left := self.start + one.at - time.monotonic()) > 0:
                await asyncio.sleep(left)
            # In their order: of those that have ended, the quick ones are too many.
            while self.broken and decided < len(tasks) and tasks[decided].done():
                decided += 1
                if self.broken.by(tasks[decided - 1].result()):
                    return list(await asyncio.gather(*tasks))
            body = bodies[place] if bodies else self._body(one)
            tasks.append(asyncio.create_task(self._send(one, body, one.at)))
        return list(await asyncio.gather(*tasks))

    async def _closed_loop(
        self, planned: Sequence[PlannedRequest], bodies: list[bytes] | None
    ) -> list[RequestRecord]:
        todo = iter(range(len(planned)))
        records: list[RequestRecord] = []
        until = self.start + self.scenario.seconds if self.scenario.seconds else math.inf
        await asyncio.sleep(max(0.0, self.start - time.monotonic()))

        async def work() -> None:
            for place in todo:
                now = time.monotonic()
                if now >= until:
                    return
                body = bodies[place] if bodies else self._body(planned[place])
                records.append(await self._send(planned[place], body, now - self.start))

        await asyncio.gather(*(work() for _ in range(int(self.rate))))
        return sorted(records, key=lambda one: one.number)

    async def _send(self, planned: PlannedRequest, body: bytes, scheduled: float) -> RequestRecord:
        record = RequestRecord(
            window=self.window,
            number=planned.number,
            scheduled=scheduled,
            asked_input=planned.input_tokens,
            asked_output=planned.output_tokens,
        )
        path = path_of(self.scenario)
        record.sent = time.monotonic() - self.start
        try:
            async with asyncio.timeout(self.scenario.timeout_seconds):
                answer = self.connections.post(path, body, token=self.target.token)
                if self.scenario.streaming:
                    await self._read_stream(answer, record)
                else:
                    await self._read_whole(answer, record)
        except TimeoutError:
            record.error = "timeout"
        except BadAnswer as error:
            record.error = str(error)
        except ConnectionRefusedError:
            record.error = "connect"
        except (OSError, EOFError, ValueError, LookupError, asyncio.LimitOverrunError):
            record.error = "broken"
        record.ended = time.monotonic() - self.start
        return record

    async def _read_stream(self, answer: AsyncIterator[bytes], record: RequestRecord) -> None:
        told = StreamedAnswer(record)
        async for data in answer:
            told.feed(data, time.monotonic() - self.start)
        told.end()

    async def _read_whole(self, answer: AsyncIterator[bytes], record: RequestRecord) -> None:
        whole = b"".join([data async for data in answer])
        record.last = time.monotonic() - self.start
        record.input_tokens, record.output_tokens = plain_usage(whole)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _in_processes(
    job: _Share, shares: Sequence[Sequence[PlannedRequest]]
) -> list[tuple[list[RequestRecord], float]]:
    context = multiprocessing.get_context("spawn")
    started = []
    for share in shares:
        ours, theirs = context.Pipe()
        process = context.Process(target=_in_process, args=(theirs, job, share), daemon=True)
        process.start()
        theirs.close()
        started.append((process, ours))
    for _, pipe in started:
        pipe.recv()
    start = time.monotonic() + _HEAD_START_SECONDS
    for _, pipe in started:
        pipe.send(start)
    found = [pipe.recv() for _, pipe in started]
    for process, _ in started:
        process.join()
    return found


def _in_process(pipe: Connection, job: _Share, share: Sequence[PlannedRequest]) -> None:
    pipe.send("ready")
    pipe.send(job.run(share, pipe.recv()))
