"""A process of a service as the front sees it: started again whenever it ends, and ended when it hangs."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

from serving.runtime.board import Phase, ProcessBoard
from serving.runtime.children import ChildOrder
from serving.runtime.errors import Problem
from serving.runtime.forked_process import ForkedProcess, order_fork
from serving.runtime.frames import Frame, FrameReader, Meta, pack_frame
from serving.runtime.isolation import Isolation
from serving.runtime.process_calls import ProcessCall

log = logging.getLogger(__name__)

LOAD_APP_WITHIN_SECONDS = 600.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 5.0
SHORTEST_LIFE_PAUSE_SECONDS = 1.0
"""The most between starts of what gets ready and then ends."""
STEADY_AFTER_SECONDS = 10.0
GIVE_UP_AFTER = 8
"""Starts in a row that failed: the service has failed."""


class Child(asyncio.Protocol):
    """Keeps a process running: starts it again whenever it ends. `limits`: seconds of loading and of one
    piece of work, and bytes of memory (0: none)."""

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
        self._profile: asyncio.Future[bytes] | None = None
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
        self._profiled("it ended", b"")
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

    async def torch_profile(self, seconds: int) -> bytes:
        """Have a process with a model profile itself; returns its trace. Raises Problem."""
        if self._profile is not None:
            raise Problem(409, "Profile is being taken", f"{self.order.name} is being profiled already.")
        self._profile = asyncio.get_running_loop().create_future()
        try:
            self.send(Frame.STATE, {"profile": seconds})
            return await self._profile
        finally:
            self._profile = None

    def _profiled(self, fault: str, trace: bytes) -> None:
        if self._profile is None or self._profile.done():
            return
        if fault:
            self._profile.set_exception(Problem(409, "No profile", f"{self.order.name}: {fault}."))
        else:
            self._profile.set_result(trace)

    def kill(self, why: str = "") -> None:
        if self._process is None:
            return
        self._why_killed = why or self._why_killed
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def enforce_limits(self, *, with_memory: bool) -> None:
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
            elif "profiled" in meta:
                self._profiled(meta["profiled"], body)
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
