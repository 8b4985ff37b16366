"""The processes of a service, started and kept by the front."""

import asyncio
import logging
import os
import secrets
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from serving.engines.base import EngineError
from serving.leash import adopt_orphans
from serving.runtime.arena import Arena, ArenaUnavailable
from serving.runtime.board import ProcessBoard
from serving.runtime.children import ChildOrder
from serving.runtime.forked_process import reap_orphans
from serving.runtime.frames import Frame, Meta
from serving.runtime.isolation import Isolation, Limits
from serving.runtime.links import ARENA_BYTES, listener
from serving.runtime.llm import ENVIRONMENTS_VARIABLE, RUN_VARIABLE
from serving.runtime.packages import python_for
from serving.runtime.process_calls import IdlePool
from serving.runtime.supervised_child import LOAD_APP_WITHIN_SECONDS, Child

log = logging.getLogger(__name__)

CELLS = 2_048
END_OF_LOAD_SECONDS = 60.0
"""After the limit of a process's own, which says more of what was slow."""
LOOK_EVERY_SECONDS = 0.1
MEMORY_EVERY_LOOKS = 10


class Processes:
    """The processes of one service.

    `processes` 0: as many CPU processes as the app says. `environments`: where engines of `serve.llm` get
    environments of their own.
    """

    def __init__(
        self,
        file: Path,
        *,
        processes: int = 0,
        arena_bytes: int = ARENA_BYTES,
        environments: Path | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.isolation = Isolation()
        self._limits = limits or Limits()
        self._environments, self._python = environments, ""
        # Made by the first engine that has a socket there.
        self._directory = Path(tempfile.gettempdir(), f"slipway-app-{secrets.token_hex(8)}")
        self._shared = {RUN_VARIABLE: str(self._directory)}
        if environments is not None:
            self._shared[ENVIRONMENTS_VARIABLE] = str(environments)
        self._file = file.resolve()
        self._wanted = processes
        self.arena_bytes = _checked_arena(arena_bytes)
        self._board = ProcessBoard.create(CELLS)
        self.description: Meta = {}
        self.cpu: list[Child] = []
        self.job: list[Child] = []
        self.gpu: list[Child] = []
        self.own: list[Child] = []
        self._tasks: list[asyncio.Task[str]] = []
        self._enforcing: asyncio.Task[None] | None = None
        self._places: Meta = {}
        self._template: Child | None = None
        self.idle, self.idle_jobs = IdlePool(), IdlePool()

    @property
    def device(self) -> str:
        said = [child.said["ready"].get("device", "cpu") for child in self.gpu if child.said]
        return "cuda" if "cuda" in said else "cpu" if self.description else ""

    @property
    def all(self) -> list[Child]:
        is_kept = self._template is not None and not self._template.obstacle
        return [*([self._template] if is_kept else ()), *self.cpu, *self.job, *self.gpu, *self.own]

    async def start(self) -> None:
        """Returns when all are ready. Raises EngineError."""
        await asyncio.to_thread(self._prepare)
        adopt_orphans()
        described: asyncio.Future[Meta] = asyncio.get_running_loop().create_future()
        self._template = Child(
            self._order("template", "template", CELLS - 1, 0),
            self._board,
            environment=self._shared,
            isolation=self.isolation,
        )
        self._template.on_described = partial(_describe, described)
        self._keep(self._template)
        self._enforcing = asyncio.create_task(self._enforce_limits())
        await self._first_of(described)
        self.description = described.result()
        if self._template.obstacle:
            log.warning("each CPU process imports %s by itself: %s", self._file.name, self._template.obstacle)
        try:
            self._add_others()
        except OSError as error:
            raise EngineError(f"its processes cannot be started: {error}") from None
        for child in (*self.cpu, *self.job):
            child.on_described = partial(self._greet, child)
            child.template = None if self._template.obstacle else self._template
        for child in self.all[1:] if self._template in self.all else self.all:
            self._keep(child)
        await self._first_of(*(asyncio.ensure_future(child.is_ready.wait()) for child in self.all))
        log.info(
            "%s: %d CPU processes, %d for jobs, models: %s",
            self._file.name,
            len(self.cpu),
            len(self.job),
            ", ".join(child.order.name for child in self.gpu) or "none",
        )

    def _prepare(self) -> None:
        self._python = python_for(self._file.parent, self._environments)
        self.isolation.arrange(self._python, self._file)
        log.info("%s runs %s, by %s", self._file.name, self.isolation.words, self._python)

    def _greet(self, child: Child, said: Meta) -> None:
        if said["routes"] != self.description["routes"]:
            child.kill("the file has other routes by now: start the service again")
        child.send(Frame.STATE, {"models": self._places})

    async def _first_of(self, *wanted: "asyncio.Future[Any]") -> None:
        """All that is wanted, or the first process that cannot be kept. Raises EngineError."""
        everything = asyncio.gather(*wanted)
        waited: set[asyncio.Future[Any]] = {everything, *self._tasks}
        done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if everything not in done:
            everything.cancel()
            raise EngineError(done.pop().result())

    def _add_others(self) -> None:
        said = self.description
        online = self._wanted or said["processes"]
        self.cpu = [self._cpu_child(number, f"cpu#{number}") for number in range(online)]
        jobs = said["job_processes"]
        self.job = [self._cpu_child(online + number, f"job#{number}") for number in range(jobs)]
        for child in (*self.cpu, *self.job):
            child.memory_bytes = said["memory_mb"] << 20
        cell = online + jobs
        for model in said["models"]:
            gpus = _visible_gpus() if model["processes"] == "per_gpu" else []
            places = self._places[model["name"]] = []
            for number in range(len(gpus) or (1 if model["processes"] == "per_gpu" else model["processes"])):
                listening = listener()
                places.append((listening.getsockname().hex(), cell))
                self.gpu.append(
                    Child(
                        self._order("gpu", f"{model['name']}#{number}", cell, online),
                        self._board,
                        listening=listening,
                        environment=self._shared | ({"CUDA_VISIBLE_DEVICES": gpus[number]} if gpus else {}),
                        isolation=self.isolation,
                        load_within=model["load_timeout_seconds"],
                        work_within=model["timeout_seconds"],
                        memory_bytes=model["memory_mb"] << 20,
                    )
                )
                cell += 1
        for name, count, load_seconds in said["own"]:
            for number in range(count):
                order = self._order("own", f"{name}#{number}", cell, online)
                within = load_seconds + END_OF_LOAD_SECONDS if load_seconds else LOAD_APP_WITHIN_SECONDS
                self.own.append(
                    Child(
                        order,
                        self._board,
                        environment=self._shared,
                        isolation=self.isolation,
                        load_within=within,
                    )
                )
                cell += 1

    def _order(self, kind: str, name: str, cell: int, online: int) -> ChildOrder:
        return ChildOrder(
            kind=kind,
            file=str(self._file),
            name=name,
            channel=-1,
            board=self._board.descriptor,
            cell=cell,
            parent=0,
            online=online,
            arena_bytes=self.arena_bytes,
            python=self._python,
            # A driver of GPUs allocates far more than is used.
            limits=vars(self._limits) | ({"memory_mb": 0} if kind == "gpu" else {}),
        )

    def _cpu_child(self, cell: int, name: str) -> Child:
        online = self._wanted or self.description["processes"]
        order = self._order("cpu", name, cell, online)
        child = Child(order, self._board, environment=self._shared, isolation=self.isolation)
        pool = self.idle if name.startswith("cpu") else self.idle_jobs
        child.on_ready = partial(pool.free, child)
        child.on_end = partial(pool.remove, child)
        return child

    async def died(self) -> str:
        """Why the service cannot go on; otherwise never returns."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(iter(done)).result()

    async def stop(self) -> None:
        for task in (*self._tasks, *([self._enforcing] if self._enforcing else [])):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for child in self.all:
            child.kill()
        shutil.rmtree(self._directory, ignore_errors=True)
        self.isolation.end()

    def _keep(self, child: Child) -> None:
        self._tasks.append(asyncio.create_task(child.keep()))

    async def _enforce_limits(self) -> None:
        looks = 0
        orphans: set[int] = set()
        while True:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            looks += 1
            for child in self.all:
                child.enforce_limits(with_memory=looks % MEMORY_EVERY_LOOKS == 0)
            if looks % MEMORY_EVERY_LOOKS == 0:
                orphans = reap_orphans({child.pid for child in self.all}, orphans)


def _describe(described: "asyncio.Future[Meta]", said: Meta) -> None:
    if not described.done():
        described.set_result(said)


def _checked_arena(wanted: int) -> int:
    """Return `wanted`, or 0 without shared memory: arrays then travel inside messages, which is slower."""
    try:
        Arena(wanted).close()
    except ArenaUnavailable as error:
        log.warning("no shared memory (%s): arrays travel inside messages, which is slower", error)
        return 0
    return wanted


def _visible_gpus() -> list[str]:
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [one for one in named.split(",") if one]
    return [str(number) for number in range(len(list(Path("/dev").glob("nvidia[0-9]*"))))]
