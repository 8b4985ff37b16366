"""The transformers engine: any causal language model that the installed transformers knows, on torch.

One thread owns the model and takes turns: each request in a slot gets one step (a part of its prompt, or
one token) before the next does. More threads would not make it faster: small models spend their time in
Python, large ones already use every core or the whole GPU within one step. Every request has its own KV
cache. There is no batching across requests; vLLM is the engine for that.
"""

import asyncio
import contextlib
import gc
import logging
import queue
import random
import threading
import warnings
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from serving.engines.base import EngineError, Piece
from serving.openai import RequestFault, TextRequest
from serving.settings import Range
from serving.worker_command import WorkerCommand

if TYPE_CHECKING:
    from serving.engines.causal import CausalModel, Continuation

log = logging.getLogger(__name__)

STOP_WITHIN_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class TransformersSettings:
    """`dtype`: auto (as stored; float32 on a CPU), float32, bfloat16 or float16. `threads`: of torch on a
    CPU; 0 takes one for a model below 100 million parameters and one per core above. `max_context`: tokens
    of prompt and answer together; 0 takes the model's own limit. `max_tokens`: of an answer whose request
    does not say. `prefill_tokens`: of a prompt that are read in one turn.
    """

    dtype: str = "auto"
    threads: Annotated[int, Range(0, 1_024)] = 0
    max_context: Annotated[int, Range(0, 100_000_000)] = 0
    max_tokens: Annotated[int, Range(1, 1_000_000)] = 256
    prefill_tokens: Annotated[int, Range(1, 1_000_000)] = 512


@dataclass(eq=False)
class _Job:
    """One request on its way through the thread. `deliver` may be called from there."""

    request: TextRequest
    deliver: Callable[[Piece | Exception], None]
    cancelled: bool = False
    continuation: "Continuation | None" = None


class TransformersEngine:
    """A TextEngine on torch."""

    def __init__(self, command: WorkerCommand, settings: TransformersSettings) -> None:
        self._command = command
        self._settings = settings
        self._inbox: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._death: asyncio.Future[str] | None = None
        self._stopping = False
        self.device = ""

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        loaded: asyncio.Future[str] = loop.create_future()
        death = self._death = loop.create_future()

        def report(future: "asyncio.Future[str]", outcome: str | Exception) -> None:
            def settle() -> None:
                if not future.done():
                    if isinstance(outcome, Exception):
                        future.set_exception(outcome)
                    else:
                        future.set_result(outcome)

            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody asks any more
                loop.call_soon_threadsafe(settle)

        def work() -> None:
            try:
                model = self._load()
            except Exception as error:
                if not isinstance(error, EngineError):
                    log.error("the model could not be loaded", exc_info=error)
                    error = EngineError(f"the model could not be loaded: {_one_line(error)}")
                report(loaded, error)
                return
            report(loaded, model.device)
            try:
                report(death, self._take_turns(model))
            except BaseException as error:
                report(death, f"the engine's thread ended: {type(error).__name__}: {error}")
                raise

        # A daemon: a worker that is told to stop while torch is being imported must not wait for it.
        self._thread = threading.Thread(target=work, name="transformers", daemon=True)
        self._thread.start()
        self.device = await loaded

    async def died(self) -> str:
        if self._death is None:
            raise EngineError("the engine was not started")
        return await asyncio.shield(self._death)

    async def generate(self, request: TextRequest) -> AsyncGenerator[Piece, None]:
        loop = asyncio.get_running_loop()
        box: asyncio.Queue[Piece | Exception] = asyncio.Queue()

        def deliver(item: Piece | Exception) -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(box.put_nowait, item)

        if self._thread is None or not self._thread.is_alive():
            raise EngineError("the engine is not running")
        job = _Job(request, deliver)
        self._inbox.put(job)
        try:
            while True:
                item = await box.get()
                if isinstance(item, Exception):
                    raise item
                yield item
                if item.finish_reason is not None:
                    return
        finally:
            job.cancelled = True

    async def stop(self) -> None:
        self._stopping = True
        self._inbox.put(None)
        thread = self._thread
        if thread is not None and self.device:
            await asyncio.to_thread(thread.join, STOP_WITHIN_SECONDS)

    def _load(self) -> "CausalModel":
        # Here, in the thread: importing torch and transformers takes seconds.
        warnings.filterwarnings("ignore", category=UserWarning, module="torch")
        from serving.engines.causal import CausalModel

        return CausalModel.load(self._command.model_dir, device=self._command.device, settings=self._settings)

    def _take_turns(self, model: "CausalModel") -> str:
        """Steps every job in turn until told to stop; returns why it ended."""
        jobs: list[_Job] = []
        death = "the engine was stopped"
        while not self._stopping:
            self._admit(jobs)
            for job in tuple(jobs):
                if job.cancelled or not self._step(model, job):
                    jobs.remove(job)
                if model.broken:
                    death, self._stopping = f"the device failed: {model.broken}", True
        self._admit(jobs, wait=False)
        for job in jobs:
            job.deliver(EngineError(death))
        del model
        gc.collect()
        return death

    def _admit(self, jobs: list[_Job], *, wait: bool = True) -> None:
        """Moves what is in the inbox to `jobs`; with none, waits for one."""
        with contextlib.suppress(queue.Empty):
            while True:
                job = self._inbox.get(block=wait and not jobs)
                if job is None:
                    return
                jobs.append(job)

    def _step(self, model: "CausalModel", job: _Job) -> bool:
        """One turn of one job; whether it wants another."""
        try:
            if job.continuation is None:
                seed = job.request.sampling.seed
                job.continuation = model.begin(
                    job.request, seed=random.getrandbits(63) if seed is None else seed
                )
            piece = job.continuation.step()
        except Exception as error:
            if not isinstance(error, RequestFault):
                log.error("a request failed", exc_info=error)
                error = model.judged(error)
            job.deliver(error)
            return False
        if piece is not None:
            job.deliver(piece)
        return piece is None or piece.finish_reason is None


def _one_line(error: Exception) -> str:
    first: Any = next((line for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first.strip()}"[:500]
