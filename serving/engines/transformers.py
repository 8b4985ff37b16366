"""The transformers engine: any causal language model that the installed transformers knows, on torch.

One thread owns the model and takes steps with the requests in its slots (`serving.engines.scheduler`). More
threads would not make it faster: small models spend their time in Python, large ones already use every core
or the whole GPU within one step.
"""

import asyncio
import contextlib
import gc
import logging
import queue
import threading
import warnings
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from serving.engines.base import EngineError, Piece
from serving.engines.scheduler import Batching, StepScheduler
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
    does not say. `prefill_tokens`: of prompts that are read in one step. `batching`: see
    `serving.engines.scheduler`; auto is continuous for models that can share steps, and off for others.
    `prompt_kv_share`: of a prompt's tokens that stay in the KV cache; 1 keeps all (see
    `serving.engines.kv_eviction`). `prompt_kv_recent`, `prompt_kv_sinks`: tokens of its end and its beginning
    that always stay.
    """

    dtype: str = "auto"
    threads: Annotated[int, Range(0, 1_024)] = 0
    max_context: Annotated[int, Range(0, 100_000_000)] = 0
    max_tokens: Annotated[int, Range(1, 1_000_000)] = 256
    prefill_tokens: Annotated[int, Range(1, 1_000_000)] = 512
    batching: str = "auto"
    prompt_kv_share: Annotated[float, Range(0.01, 1)] = 1.0
    prompt_kv_recent: Annotated[int, Range(1, 4_096)] = 64
    prompt_kv_sinks: Annotated[int, Range(0, 4_096)] = 4


@dataclass(eq=False)
class _Job:
    """A request on its way through the thread. `deliver` may be called from there."""

    request: TextRequest
    deliver: Callable[[Piece | Exception], None]
    cancelled: bool = False


class TransformersEngine:
    """A TextEngine on torch."""

    def __init__(self, command: WorkerCommand, settings: TransformersSettings) -> None:
        self._command = command
        self._settings = settings
        self._inbox: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._death: asyncio.Future[str] | None = None
        self._stopping = False
        self._scheduler: StepScheduler | None = None
        self._model: CausalModel | None = None
        self.device = ""

    @property
    def forward_steps(self) -> int:
        """Forward steps of the model since its start."""
        return self._scheduler.forward_steps if self._scheduler else 0

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
                scheduler = self._scheduler = StepScheduler(
                    model, slots=self._command.slots, batching=self._batching_of(model)
                )
            except Exception as error:
                if not isinstance(error, EngineError):
                    log.error("the model could not be loaded", exc_info=error)
                    error = EngineError(f"the model could not be loaded: {_one_line(error)}")
                report(loaded, error)
                return
            self._model = model
            report(loaded, model.device)
            try:
                report(death, self._take_steps(model, scheduler))
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

    @property
    def adapters(self) -> Collection[str]:
        return self._model.adapters if self._model else ()

    async def load_adapter(self, name: str, directory: Path) -> None:
        """Read the adapter while requests go on; those that come from now on may name it."""
        if (model := self._model) is None:
            raise EngineError("the engine is not running")
        from serving.engines.lora import LoraAdapter

        adapter = await asyncio.to_thread(LoraAdapter.read, directory, model.model)
        model.adapters = {**model.adapters, name: adapter}

    async def unload_adapter(self, name: str) -> None:
        """Refuse it to new requests; those that run keep it to their end."""
        if self._model is not None:
            self._model.adapters = {key: one for key, one in self._model.adapters.items() if key != name}

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

    def _batching_of(self, model: "CausalModel") -> Batching:
        """Raises EngineError when the model cannot do what the settings demand."""
        wanted = self._settings.batching
        if wanted not in ("auto", *get_args(Batching)):
            raise EngineError(f"batching must be one of auto, {', '.join(get_args(Batching))}")
        evicts = model.eviction is not None
        if wanted == "off" and evicts:
            raise EngineError(
                "prompt_kv_share is below 1, which needs batching: set it to auto or continuous"
            )
        if wanted == "off":
            return "off"
        if not (reason := model.share_steps(self._command.slots)):
            return "static" if wanted == "static" else "continuous"
        if wanted != "auto":
            raise EngineError(
                f"batching is {wanted}, but requests to this model cannot share steps: {reason}; "
                "set batching to auto or off"
            )
        if evicts:
            raise EngineError(
                f"prompt_kv_share is below 1, which this model cannot do: {reason}; set it to 1"
            )
        log.warning("requests do not share steps with this model: %s", reason)
        return "off"

    def _take_steps(self, model: "CausalModel", scheduler: StepScheduler) -> str:
        """Step every request until told to stop; return why it ended."""
        waiting: deque[_Job] = deque()
        running: dict[Continuation, _Job] = {}
        death = "the engine was stopped"
        while not self._stopping:
            self._receive(waiting, wait=not running)
            for continuation in [one for one, job in running.items() if job.cancelled]:
                scheduler.leave(continuation)
                del running[continuation]
            while waiting and scheduler.has_room:
                self._enter(waiting.popleft(), model, scheduler, running)
            for continuation, made in scheduler.step() if running else ():
                job = running[continuation]
                job.deliver(_for_client(made, model) if isinstance(made, Exception) else made)
                if isinstance(made, Exception) or made.finish_reason is not None:
                    scheduler.leave(continuation)
                    del running[continuation]
            if model.broken:
                death, self._stopping = f"the device failed: {model.broken}", True
        self._receive(waiting, wait=False)
        for job in (*running.values(), *waiting):
            job.deliver(EngineError(death))
        del model, scheduler
        self._scheduler = self._model = None
        gc.collect()
        return death

    def _receive(self, waiting: deque[_Job], *, wait: bool) -> None:
        """Move requests from the inbox to `waiting`; if it is empty and `wait`, until there is one."""
        with contextlib.suppress(queue.Empty):
            while True:
                job = self._inbox.get(block=wait and not waiting)
                if job is None:
                    return
                waiting.append(job)

    @staticmethod
    def _enter(
        job: _Job, model: "CausalModel", scheduler: StepScheduler, running: "dict[Continuation, _Job]"
    ) -> None:
        if job.cancelled:
            return
        try:
            running[scheduler.enter(job.request)] = job
        except Exception as error:
            job.deliver(_for_client(error, model))


def _for_client(error: Exception, model: "CausalModel") -> RequestFault:
    if isinstance(error, RequestFault):
        return error
    log.error("a request failed", exc_info=error)
    return model.judged(error)


def _one_line(error: Exception) -> str:
    first: Any = next((line for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first.strip()}"[:500]
