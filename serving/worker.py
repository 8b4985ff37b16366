"""`python -m serving.worker`: one process that serves one model version over HTTP.

The HTTP side is up first and says `starting`; the engine loads behind it. Ready means: the engine has loaded
and has answered a request. On SIGTERM, health fails at once, new requests are still taken for a moment
(until the gateway has seen it), those in flight are finished, and the process exits 0. Asked twice it goes on
like that; a SIGINT on top ends it at once.
"""

import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import uvicorn

from serving import logs
from serving.adapters import AdapterFollower
from serving.app import make_app, served_names
from serving.begun import tells_begin
from serving.desk import Desk, Progress
from serving.engines.answers import TextAnswers
from serving.engines.base import Engine, EngineError
from serving.engines.echo import EchoEngine, EchoSettings
from serving.engines.factory import make_compressor, make_engine
from serving.engines.registry import ENGINES
from serving.faults import FaultInjection, Faults
from serving.fields import ProtocolError
from serving.gpu_memory import GpuMemory
from serving.heartbeat_sender import HeartbeatSender
from serving.leash import end_with_parent, parent_is_gone
from serving.openai import Call, OpenAiRoute, RequestFault
from serving.prompt_compression import PromptCompressor
from serving.protocol import Heartbeat, WorkerState
from serving.runtime.http_server import KEEP_ALIVE_SECONDS, HttpServer
from serving.runtime.service import AppService, read_app_settings
from serving.settings import VERSION_FILE, SettingsError, VersionSettings, read_settings
from serving.tracing import Spans
from serving.worker_command import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_PORT_TAKEN,
    EXIT_USAGE,
    WORKER_ENVIRONMENT,
    WorkerCommand,
)

log = logging.getLogger(__name__)

CHECK_WITHIN_SECONDS = 300.0
LOOK_AT_FILES_EVERY_SECONDS = 0.5


class WorkerProcess:
    """The parts of one worker and their life together."""

    def __init__(self, command: WorkerCommand, listener: socket.socket) -> None:
        self._command = command
        self._listener = listener
        self._started_at = time.time()
        self._load_seconds: float | None = None
        self._desk = Desk(slots=command.slots, queue_limit=command.queue_limit)
        self._engine, self._compressor, faults = _engine_and_faults(command)
        self._spans = Spans(command)
        self._desk.observe(self._spans.tell)
        injected = FaultInjection(faults, seed=command.name)
        self._server: HttpServer | _AsgiServer
        self._adapters: AdapterFollower | None = None
        if isinstance(self._engine, AppService):
            front = self._engine.application(self._desk, injected)
            self._server = HttpServer(front, grace_seconds=command.grace_seconds)
        else:
            self._adapters = AdapterFollower(
                self._engine, model_dir=command.model_dir, file=command.adapters_file
            )
            app = make_app(
                command=command,
                desk=self._desk,
                engine=self._engine,
                adapters=self._adapters,
                compressor=self._compressor,
                faults=injected,
                started_at=self._started_at,
            )
            self._server = _AsgiServer(app, grace_seconds=command.grace_seconds)
        self._heartbeats: HeartbeatSender | None = None
        self._gpu_memory = GpuMemory()
        self._status = EXIT_DONE
        self._stop = asyncio.Event()

    async def run(self) -> int:
        """Serves until a signal or a dead engine; the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)
        await self._server.start(self._listener)
        log.info("%s listens on %s", self._command.name, _where(self._listener))
        # Before it is ready: the first request is traced, too.
        await asyncio.to_thread(self._spans.load)
        background = [asyncio.create_task(self._engine_life())]
        if self._command.heartbeat_url:
            token_file = self._command.heartbeat_token_file
            self._heartbeats = HeartbeatSender(
                self._command.heartbeat_url,
                compose=lambda: self.heartbeat().encode(),
                token_file=Path(token_file) if token_file else None,
            )
            background.append(asyncio.create_task(self._heartbeats.run()))
            if self._command.device != "cpu":
                background.append(asyncio.create_task(self._gpu_memory.run()))
        await self._stop.wait()
        await asyncio.sleep(0 if self._desk.state is WorkerState.FAILED else self._command.settle_seconds)
        await self._server.stop()
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await self._engine.stop()
        await asyncio.to_thread(self._spans.flush)
        log.info("%s is gone", self._command.name)
        return self._status

    def heartbeat(self) -> Heartbeat:
        command, desk = self._command, self._desk
        host, port = self._listener.getsockname()[:2]  # a worker with a socket of its own sends no heartbeats
        machine = command.machine or socket.gethostname()
        anywhere = host in ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
        service = self._engine if isinstance(self._engine, AppService) else None
        return Heartbeat(
            worker=command.name,
            deployment=command.deployment,
            service=command.service,
            version=command.version_label,
            engine=command.engine,
            device=self._engine.device,
            machine=machine,
            address=command.address or (machine if anywhere else host),
            port=port,
            pid=os.getpid(),
            state=desk.state,
            reason=desk.reason[:2_000],
            busy=desk.busy,
            in_flight=desk.in_flight,
            slots=desk.slots,
            queue_depth=desk.queue_depth,
            abilities=service.abilities if service else command.abilities,
            code_runs=service.code_runs[:500] if service else "",
            group=service.group if service else "",
            jobs_running=service.jobs_running if service else 0,
            adapters=self._adapters.reports if self._adapters else (),
            counters=desk.counters,
            ttft=desk.ttft,
            tpot=desk.tpot,
            prompt_lengths=desk.prompt_lengths.counts,
            answer_lengths=desk.answer_lengths.counts,
            gpu_memory_mib=self._gpu_memory.mib,
            load_seconds=self._load_seconds,
            started_at=self._started_at,
            at=time.time(),
        )

    def _signalled(self, number: signal.Signals) -> None:
        if self._stop.is_set():
            if number == signal.SIGTERM:
                return  # a supervisor that took over from another cannot know that we were asked already
            log.warning("stopped at once by a second signal")
            os._exit(EXIT_FAILED)
        self._desk.drain()
        self._server.is_draining = True
        self._tell()
        self._stop.set()

    def _tell(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.hurry()

    async def _engine_life(self) -> None:
        """Run the engine from loading to death. A worker whose engine failed stays a while, so that its
        heartbeats and its health can say why, and then exits so that whoever supervises it may try again; at
        once when its files are others by now.
        """
        began, files = time.monotonic(), _inode(self._command.model_dir)
        following: asyncio.Task[None] | None = None
        try:
            if self._compressor is not None:
                await asyncio.to_thread(self._compressor.load)
            await self._engine.start()
            self._load_seconds = time.monotonic() - began
            if self._adapters is not None and ENGINES[self._command.engine].loads_adapters:
                await self._adapters.start()
                following = asyncio.create_task(self._adapters.run())
            await self._check()
            self._desk.open()
            self._tell()
            took = time.monotonic() - began
            log.info("ready after %.1f s, %.1f s of them loading", took, self._load_seconds)
            reason = await self._engine.died()
        except (EngineError, RequestFault, TimeoutError) as error:
            reason = str(error) or f"the model did not answer within {CHECK_WITHIN_SECONDS:g} s"
        except Exception as error:
            log.exception("the engine failed")
            reason = f"the engine failed: {error}"
        finally:
            if following is not None:
                following.cancel()
        if self._stop.is_set():
            return
        log.error("failed: %s", reason)
        self._desk.fail(reason)
        self._status = EXIT_FAILED
        self._tell()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._command.linger_seconds):
                while (now := _inode(self._command.model_dir)) is None or now == files:
                    files = now
                    await asyncio.sleep(LOOK_AT_FILES_EVERY_SECONDS)
        self._stop.set()

    async def _check(self) -> None:
        """Ask for one real answer before anybody else asks."""
        if isinstance(self._engine, AppService):
            return  # it has answered its own
        name = served_names(self._command)[0]
        body = {"model": name, "prompt": "Hello", "max_tokens": 4, "temperature": 0}
        call = Call(route=OpenAiRoute.COMPLETIONS, body=body, model=name, stream=False, include_usage=False)
        async with asyncio.timeout(CHECK_WITHIN_SECONDS):
            await self._engine.answer(call, Progress())


def _inode(directory: Path) -> int | None:
    """Return the inode; None when the directory is not there."""
    try:
        return directory.stat().st_ino
    except OSError:
        return None


def _engine_and_faults(
    command: WorkerCommand,
) -> tuple[Engine | AppService, PromptCompressor | None, Faults]:
    """Settings that cannot be meant become an engine that fails with the reason: the people who wrote them
    look at the console and not at a log."""
    try:
        version_file = VersionSettings.beside(command.model_dir)
        faults = read_settings(Faults, version_file.serving, where=f"{VERSION_FILE}: serving")
        if command.engine == "app":
            return AppService(command, read_app_settings(command, version_file)), None, faults
        return make_engine(command, version_file), make_compressor(command, version_file), faults
    except SettingsError as error:
        return TextAnswers(EchoEngine(EchoSettings(load_error=str(error)))), None, Faults()


def _where(listener: socket.socket) -> str:
    name = listener.getsockname()
    return f"unix:{name}" if isinstance(name, str) else f"{name[0]}:{name[1]}"


class _AsgiServer(uvicorn.Server):
    """Serves engines of text. Leaves signals to the worker, which drains before the listener closes."""

    is_draining = False  # their answers say so themselves (`serving.app.identity_headers`)

    def __init__(self, app: Any, *, grace_seconds: float) -> None:
        config = uvicorn.Config(
            tells_begin(app),
            access_log=False,
            lifespan="off",
            log_config=None,
            log_level="warning",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=max(1, round(grace_seconds)),
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            ws="none",
        )
        super().__init__(config)

    async def start(self, listener: socket.socket) -> None:
        self._serving = asyncio.create_task(self.serve(sockets=[listener]))
        while not self.started and not self._serving.done():
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        self.should_exit = True
        await self._serving

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; where `host` is `unix:/path`, one that only this user may use. Raises OSError."""
    if host.startswith("unix:"):
        listener = socket.socket(socket.AF_UNIX)
        before = os.umask(0o177)
        try:
            listener.bind(host.removeprefix("unix:"))
        finally:
            os.umask(before)
        listener.setblocking(False)
        return listener
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def main(arguments: Sequence[str]) -> int:
    parent = os.getppid()
    logs.set_up("model-worker")
    for name, value in WORKER_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        command = WorkerCommand.parse(arguments)
        logs.set_up(
            "model-worker",
            worker=command.name,
            deployment=command.deployment,
            service=command.service,
            version=command.version_label,
        )
        if command.exit_with_parent:
            end_with_parent()
            if parent_is_gone(parent):
                return EXIT_DONE
        listener = listen(command.host, command.port)
    except ProtocolError as error:
        return _refuse(str(error))
    except OSError as error:
        reason = f"--host {command.host} --port {command.port} cannot be listened on"
        return _refuse(
            f"{reason}: {error.strerror or error}",
            EXIT_PORT_TAKEN if error.errno == errno.EADDRINUSE else EXIT_USAGE,
        )

    _hold(command.model_dir)

    async def serve() -> int:
        return await WorkerProcess(command, listener).run()

    with asyncio.Runner(loop_factory=_fastest_loop()) as runner:
        return runner.run(serve())


def _hold(directory: Path) -> None:
    """Whoever makes room on the machine leaves the directory alone while this process lives: a lock that
    falls with it, seen from every container of the machine (`model_store.backends.locks`).
    """
    with contextlib.suppress(OSError):
        # Never closed.
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _refuse(reason: str, status: int = EXIT_USAGE) -> int:
    sys.stderr.write(f"serving.worker: {reason}\n")
    return status


if __name__ == "__main__":
    status = main(sys.argv[1:])
    with contextlib.suppress(OSError):  # their disk may be full
        sys.stdout.flush()
        sys.stderr.flush()
    # Threads of torch that are still importing or computing must not hold the exit up, nor crash in it.
    os._exit(status)
