"""The processes of a service, started and kept by the front."""

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from serving.engines.base import EngineError
from serving.leash import adopt_orphans
from serving.runtime.arena import Arena, ArenaUnavailable
from serving.runtime.board import Phase, ProcessBoard
from serving.runtime.children import ChildOrder
from serving.runtime.forked_process import ForkedProcess, order_fork, reap_orphans
from serving.runtime.frames import Frame, FrameReader, pack_frame
from serving.runtime.isolation import Isolation, Limits
from serving.runtime.links import ARENA_BYTES, listener
from serving.runtime.llm import ENVIRONMENTS_VARIABLE, RUN_VARIABLE
from serving.runtime.packages import python_for
from serving.runtime.process_calls import IdlePool, ProcessCall

log = logging.getLogger(__name__)

CELLS = 2_048
LOAD_APP_WITHIN_SECONDS = 600.0
END_OF_LOAD_SECONDS = 60.0
"""After the limit of a process's own, which says more of what was slow."""
LOOK_EVERY_SECONDS = 0.1
MEMORY_EVERY = 10
"""Looks."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 5.0
SHORTEST_LIFE_PAUSE_SECONDS = 1.0
"""The most between starts of what gets ready and then ends."""
STEADY_AFTER_SECONDS = 10.0
GIVE_UP_AFTER = 8
"""Starts in a row that failed: the service has failed."""
Meta = dict[str, Any]


class Child(asyncio.Protocol):
    """One process, started again whenever it ends. `limits`: seconds of loading and of one piece of work, and
    bytes of memory (0: none)."""

    def __init__(
        self,
        order: ChildOrder,
        board: ProcessBoard,
        *,
        listening: socket.socket | None = None,
        environment: dict[str, str] | None = None,
        isolation: Isolation | None = None,
        load_within: float = LOAD_APP_WITHIN_SECONDS,
        work_within: float = 0.0,
        memory_bytes: int = 0,
    ) -> None:
        self.order = order
        self.cell = board.cells[order.cell]
        self.load_within, self.work_within, self.memory_bytes = load_within, work_within, memory_bytes
        self._listening = listening
        self._environment = environment or {}
        self._isolation = isolation or Isolation()
        self._process: asyncio.subprocess.Process | ForkedProcess | None = None
        self._socket: socket.socket | None = None
        self._is_paused = False
        self._forked: asyncio.Future[int] | None = None
        self._forks_in_turn = asyncio.Lock()
        self.template: Child | None = None
        """The process that this one is forked of; None: it is started by its command line."""
        self.obstacle = ""
        """Of a template that cannot be forked, and is not needed: why."""
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader()
        self._failed = ""
        self._why_killed = ""
        self.is_ready = asyncio.Event()
        self.said: Meta = {}
        self.starts = 0
        self.call: ProcessCall | None = None
        self.on_described: Callable[[Meta], None] = lambda _: None
        self.on_ready: Callable[[], None] = lambda: None
        self.on_end: Callable[[], None] = lambda: None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def keep(self) -> str:
        """Starts it anew each time that it ends; returns why when that is of no use any more."""
        short = failed = 0
        while True:
            began = time.monotonic()
            reason = await self._life()
            was_ready = self.is_ready.is_set()
            self.is_ready.clear()
            if self.obstacle:
                await asyncio.Event().wait()
            log.warning("%s: %s", self.order.name, reason)
            short = 0 if was_ready and time.monotonic() - began > STEADY_AFTER_SECONDS else short + 1
            failed = 0 if was_ready else failed + 1
            if failed >= GIVE_UP_AFTER or (self._failed and not self.said):
                return f"{self.order.name}: {reason}"
            if short > 1:
                longest = LONGEST_PAUSE_SECONDS if failed else SHORTEST_LIFE_PAUSE_SECONDS
                await asyncio.sleep(min(longest, FIRST_PAUSE_SECONDS * 2 ** min(10, short - 2)))

    async def _life(self) -> str:
        """Live from start to end; return why it ended."""
        self.starts += 1
        self._failed = self._why_killed = ""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        passed = [theirs.fileno(), self.order.board]
        listening = -1
        if self._listening is not None:
            listening = self._listening.fileno()
            passed.append(listening)
        order = replace(self.order, channel=theirs.fileno(), parent=os.getpid(), listener=listening)
        self.cell.phase, self.cell.since_ns = Phase.LOADING, time.monotonic_ns()
        try:
            if self.template is not None:
                self._process = await self.template.fork(order)
            else:
                self._process = await asyncio.create_subprocess_exec(
                    *self._isolation.command(order.argv()),
                    stdin=asyncio.subprocess.DEVNULL,
                    pass_fds=passed,
                    env=os.environ | self._environment | self._isolation.environment,
                    start_new_session=True,
                )
        except OSError as error:
            ours.close()
            reason = f"it cannot be started: {error}"
            if self.template is None:
                self._failed = reason
            return reason
        finally:
            theirs.close()
        self._reader, self._socket, self._is_paused = FrameReader(), ours, False
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: self, sock=ours)
        try:
            status = await self._process.wait()
        finally:
            if self._forked is not None and not self._forked.done():
                self._forked.set_exception(OSError("the template ended"))
            self.kill()  # what it has started itself goes with it
            transport.abort()
            self.cell.clear()
        words = f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        reason = self._failed or (f"{words}: {self._why_killed}" if self._why_killed else words)
        self.on_end()
        if (call := self.call) is not None:
            self.call = None
            call.lost(reason)
        return reason

    async def fork(self, order: ChildOrder) -> ForkedProcess:
        """Have a template fork it. Raises OSError."""
        async with self._forks_in_turn:
            await self.is_ready.wait()
            assert self._socket is not None  # noqa: S101
            self._forked = asyncio.get_running_loop().create_future()
            order_fork(self._socket, order)
            return ForkedProcess(await self._forked)

    def kill(self, why: str = "") -> None:
        if self._process is None:
            return
        self._why_killed = why or self._why_killed
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def look(self, *, with_memory: bool) -> None:
        """Ends it when it hangs or has grown too large."""
        if (since := self.cell.since_ns) and self._process is not None:
            seconds = time.monotonic() - since / 1e9
            limit = self.work_within if self.cell.phase == Phase.READY else self.load_within
            if limit and seconds > limit and not self._why_killed:
                what = "work" if self.cell.phase == Phase.READY else "load"
                self.kill(f"it did not end its {what} within {limit:g} s")
        if with_memory and self.memory_bytes and self.pid and not self._why_killed and not self._is_at_work():
            used = _resident_bytes(self.pid)
            if used > self.memory_bytes:
                self.kill(f"it used {used >> 20} MB of memory, more than its {self.memory_bytes >> 20} MB")

    def _is_at_work(self) -> bool:
        """A CPU process that is too large is replaced between requests."""
        return self.order.kind == "cpu" and bool(self.cell.since_ns)

    def send(self, kind: Frame, meta: Meta, body: bytes = b"") -> None:
        if self._transport is not None:
            self._transport.write(pack_frame(kind, meta, body))

    def pause(self, is_paused: bool) -> None:
        """Its socket fills while nobody reads it, and it waits."""
        if is_paused != self._is_paused and self._transport is not None and not self._transport.is_closing():
            self._is_paused = is_paused
            (self._transport.pause_reading if is_paused else self._transport.resume_reading)()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Before a fork's first words, which may be there already.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        for kind, meta, body in self._reader.feed(data):
            if kind is not Frame.STATE:
                if self.call is not None:
                    self.call.on_frame(kind, meta, body)
            elif "failed" in meta:
                self._failed = str(meta["failed"])
            elif "described" in meta:
                self.obstacle = meta.get("obstacle", "")
                self.on_described(meta["described"])
            elif "forked" in meta:
                if self._forked is not None and not self._forked.done():
                    self._forked.set_result(meta["forked"])
            else:
                self.said = meta
                if self.order.kind != "gpu":
                    self.cell.phase, self.cell.since_ns = Phase.READY, 0
                self.is_ready.set()
                self.on_ready()


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


class Processes:
    """All of them. `processes` 0: as many CPU processes as the app says. `environments`: where engines of
    `serve.llm` get environments of their own."""

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
        self._looking: asyncio.Task[None] | None = None
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
        self._looking = asyncio.create_task(self._look())
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
        for task in (*self._tasks, *([self._looking] if self._looking else [])):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for child in self.all:
            child.kill()
        shutil.rmtree(self._directory, ignore_errors=True)
        self.isolation.end()

    def _keep(self, child: Child) -> None:
        self._tasks.append(asyncio.create_task(child.keep()))

    async def _look(self) -> None:
        looks = 0
        orphans: set[int] = set()
        while True:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            looks += 1
            for child in self.all:
                child.look(with_memory=looks % MEMORY_EVERY == 0)
            if looks % MEMORY_EVERY == 0:
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
