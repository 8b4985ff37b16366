"""Engines that are a server program: the worker's child, to which OpenAI requests are forwarded.

Such a server batches continuously by itself; the slots of the worker bound what it is given at once, so that
busy, queue and refusal mean the same for every engine.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import tempfile
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

from serving.adapters import ADAPTERS
from serving.engines.base import EngineError, Meter
from serving.engines.forwarding import (
    meter_finish,
    meter_usage,
    metered_chunk,
    metered_response,
    refusal_of,
    sse_data,
    whole_body,
)
from serving.engines.programs import EngineProgram, find_program
from serving.engines.server_options import ServerSettings, program_of, slots_option
from serving.engines.spec import AdapterCall, EngineSpec
from serving.http_client import HttpConnection, HttpError, Url
from serving.leash import end_with_parent
from serving.openai import Call, OpenAiRoute, RequestFault
from serving.scraping.exposition import MetricSamples
from serving.scraping.reading import read
from serving.worker_command import WorkerCommand

_JSON = {"content-type": "application/json"}
ADAPTER_WITHIN_SECONDS = 120.0
LOOK_EVERY_SECONDS, SICK_AFTER_LOOKS = 2.0, 2
STOP_WITHIN_SECONDS = 15.0


class ServerEngine:
    """An Engine that owns one server process. It listens on a socket in a directory that only this user may
    enter, or, where it knows no sockets of the file system, on a free port of the loopback address."""

    def __init__(self, command: WorkerCommand, spec: EngineSpec, settings: ServerSettings) -> None:
        self._command, self._spec, self._settings = command, spec, settings
        self._server = program_of(spec)
        self._child: asyncio.subprocess.Process | None = None
        self._said: deque[str] = deque(maxlen=20)
        self._listening: asyncio.Task[None] | None = None
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._socket, self._port = "", 0
        self._is_on_cpu = command.device == "cpu"
        self._answered = ""
        self.adapters: set[str] = set()

    @property
    def apis(self) -> frozenset[str]:
        return self._spec.apis

    @property
    def device(self) -> str:
        if self._is_on_cpu:
            return "cpu"
        return "cuda" if self._command.device == "auto" else self._command.device

    async def start(self) -> None:
        program = await asyncio.to_thread(find_program, self._spec, self._command)
        self._is_on_cpu = self._is_on_cpu or program.is_for_cpu
        prefix = f"slipway-{self._spec.name}-"
        self._directory = tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
        if any("{socket}" in one for one in self._server.arguments):
            self._socket = f"{self._directory.name}/http.sock"
        else:
            self._port = _free_port()
        self._child = child = await asyncio.create_subprocess_exec(
            *self.argv(program),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment(program),
            limit=2**20,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
        self._listening = asyncio.create_task(self._listen(child.stdout))
        try:
            async with asyncio.timeout(self._settings.load_timeout_seconds):
                await self._until_healthy(child)
        except TimeoutError:
            await self.stop()
            raise EngineError(
                f"{self._spec.name} was not ready within {self._settings.load_timeout_seconds:g} s"
                f"{self._last_words()}"
            ) from None

    def argv(self, program: EngineProgram) -> list[str]:
        """Its command line; on the other machines of a worker that spans several, one without an API."""
        from serving.app import served_names

        command, server = self._command, self._server
        names = list(served_names(command))
        filled = {
            "model": str(self._model()),
            "socket": self._socket,
            "port": self._port,
            "name": names[0],
        }
        arguments = (
            ("--headless", "--served-model-name", "{names}") if command.node_rank else server.arguments
        )
        options = [] if server.slots_option in self._settings.flags else slots_option(server, command.slots)
        has_adapters = self._spec.loads_adapters and (command.model_dir / ADAPTERS).is_dir()
        return [
            *(word.format_map(filled) for word in program.command),
            *(
                word
                for one in arguments
                for word in (names if one == "{names}" else [one.format_map(filled)])
            ),
            *options,
            *(server.adapter_options if has_adapters else ()),
            *self._settings.arguments(server),
            *self._group(),
        ]

    def _model(self) -> Path:
        directory = self._command.model_dir
        if not self._server.model_file:
            return directory
        found = sorted(directory.glob(self._server.model_file))
        # Of a model in parts the first one names the others.
        if not found or (len(found) > 1 and "-00001-of-" not in found[0].name):
            raise EngineError(
                f"{self._spec.name} needs one file {self._server.model_file} in the version: "
                f"there are {len(found)}"
            )
        return found[0]

    def _group(self) -> list[str]:
        """Return the options of a group, without Ray: vLLM's manual, "Parallelism and Scaling"."""
        command = self._command
        if command.nodes < 2:
            return []
        told = {
            "nnodes": command.nodes,
            "node-rank": command.node_rank,
            "master-addr": command.master_address,
        }
        if "distributed-executor-backend" not in self._settings.flags:
            told["distributed-executor-backend"] = "mp"
        return [f"--{name}={value}" for name, value in told.items()]

    async def died(self) -> str:
        if (child := self._child) is None:
            raise EngineError(f"{self._spec.name} was not started")
        ended = asyncio.create_task(child.wait())
        try:
            failures = 0
            while not ended.done() and failures < SICK_AFTER_LOOKS:
                await asyncio.wait({ended}, timeout=LOOK_EVERY_SECONDS)
                failures = failures + 1 if not ended.done() and await self._is_sick() else 0
        finally:
            ended.cancel()
        # A process that it started may outlive it, with the GPU's memory.
        _signal_group(child.pid, signal.SIGKILL)
        await child.wait()
        if failures:
            return f"{self._spec.name} said at {self._server.health_path} that it failed{self._last_words()}"
        return f"{self._spec.name} ended with status {child.returncode}{self._last_words()}"

    async def _is_sick(self) -> bool:
        """Whether it says so itself; one that is silent may be busy."""
        try:
            async with asyncio.timeout(LOOK_EVERY_SECONDS):
                return await self._status("GET", self._server.health_path) >= 500
        except (HttpError, TimeoutError):
            return False

    async def _status(self, method: str, path: str, body: Mapping[str, str] | None = None) -> int:
        url, data = self._url(path), json.dumps(body).encode() if body is not None else b""
        async with _connection(url) as connection:
            status = await connection.request(method, url, headers=_JSON, body=data)
            self._answered = (await whole_body(connection))[:500].decode(errors="replace")
            return status

    async def load_adapter(self, name: str, directory: Path) -> None:
        await self._adapter(self._server.load_adapter, name, str(directory))
        self.adapters.add(name)

    async def unload_adapter(self, name: str) -> None:
        await self._adapter(self._server.unload_adapter, name, "")
        self.adapters.discard(name)

    async def _adapter(self, call: AdapterCall | None, name: str, path: str) -> None:
        if call is None:
            raise RequestFault.invalid(f"The engine {self._spec.name} loads adapters at its start alone")
        body = {key: value.format(name=name, path=path) for key, value in call.body.items()}
        try:
            async with asyncio.timeout(ADAPTER_WITHIN_SECONDS):
                status = await self._status("POST", call.path, body)
        except (HttpError, TimeoutError) as error:
            raise EngineError(f"{self._spec.name}: {error or 'no answer'}") from None
        if status != 200:
            raise RequestFault(409 if status < 500 else 500, f"{self._spec.name} refused: {self._answered}")

    async def answer(self, call: Call, meter: Meter) -> bytes:
        async with self._post(call, call.body) as connection:
            answer = await whole_body(connection)
        with contextlib.suppress(ValueError, AttributeError):
            told = json.loads(answer)
            meter_usage(told.get("usage"), meter)
            meter_finish(told, meter)
        return answer

    async def stream(self, call: Call, meter: Meter) -> AsyncGenerator[bytes, None]:
        if call.route is OpenAiRoute.RESPONSES:
            body: dict[str, Any] = {**call.body, "stream": True}
        else:
            options = dict(call.body.get("stream_options") or {}) | {"include_usage": True}
            body = {**call.body, "stream": True, "stream_options": options}
        ended = False
        async with self._post(call, body) as connection, aclosing(sse_data(connection)) as events:
            async for payload in events:
                if payload == b"[DONE]":
                    return
                if call.route is OpenAiRoute.RESPONSES:
                    ended = metered_response(payload, meter)
                    yield payload
                elif metered_chunk(payload, meter) or call.include_usage:
                    yield payload
        if ended:
            return
        raise EngineError(f"{self._spec.name} broke the answer off")

    async def metrics(self) -> bytes:
        url = self._url(self._spec.metrics.path if self._spec.metrics else "/metrics")
        try:
            async with asyncio.timeout(1.0), _connection(url) as connection:
                status = await connection.request("GET", url)
                text = await whole_body(connection)
                return text + self._in_our_names(text) if status == 200 else b""
        except (HttpError, TimeoutError):
            return b""

    def _in_our_names(self, text: bytes) -> bytes:
        """The same for every engine, for charts that know no engine."""
        if self._spec.metrics is None:
            return b""
        reading = read(MetricSamples(text.decode(errors="replace")), self._spec.metrics)
        if reading is None:
            return b""
        gauges = {
            "requests_running": reading.running,
            "requests_waiting": reading.waiting,
            "kv_cache_used_ratio": reading.kv_used,
        }
        lines = (
            f"# TYPE slipway_worker_engine_{name} gauge\nslipway_worker_engine_{name} {value}\n"
            for name, value in gauges.items()
            if value is not None
        )
        return "".join(lines).encode()

    async def stop(self) -> None:
        child, self._child = self._child, None
        if child is not None and child.returncode is None:
            _signal_group(child.pid, self._server.stop_signal)
            try:
                async with asyncio.timeout(STOP_WITHIN_SECONDS):
                    await child.wait()
            except TimeoutError:
                pass
        if child is not None:
            _signal_group(child.pid, signal.SIGKILL)  # what the child may have left in its group
            await child.wait()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
            self._listening = None
        if self._directory is not None:
            self._directory.cleanup()

    def _environment(self, program: EngineProgram) -> dict[str, str]:
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if self._is_on_cpu else {}
        return {**os.environ, **hidden, **self._server.environment, **program.variables}

    async def _until_healthy(self, child: asyncio.subprocess.Process) -> None:
        url = self._url(self._server.health_path)
        while True:
            if child.returncode is not None:
                await asyncio.sleep(0.1)  # its last words may still be on their way
                raise EngineError(await self.died())
            try:
                async with asyncio.timeout(5), _connection(url) as connection:
                    if await connection.request("GET", url) == 200:
                        return
            except (HttpError, TimeoutError):
                pass
            await asyncio.sleep(0.25)

    async def _listen(self, output: asyncio.StreamReader | None) -> None:
        if output is None:
            return
        while True:
            try:
                line = await output.readline()
            except ValueError:  # a line longer than the limit; a full pipe would halt the child
                continue
            if not line:
                return
            text = line.decode(errors="replace")
            self._said.append(text.strip())
            sys.stderr.write(text)

    def _last_words(self) -> str:
        words = next((line for line in reversed(self._said) if line), "")
        return f": {words[:500]}" if words else ""

    def _url(self, path: str) -> Url:
        if self._socket:
            return Url(self._spec.name, 80, path, socket=self._socket)
        return Url("127.0.0.1", self._port, path)

    @contextlib.asynccontextmanager
    async def _post(self, call: Call, body: Mapping[str, Any]) -> AsyncIterator[HttpConnection]:
        """A connection whose 200 answer waits to be read. Raises RequestFault, EngineError."""
        url = self._url(call.route)
        data = json.dumps({**body, "model": call.model}).encode()
        try:
            async with _connection(url) as connection:
                status = await connection.request("POST", url, headers=_JSON, body=data)
                if status != 200:
                    raise refusal_of(status, await whole_body(connection))
                yield connection
        except HttpError as error:
            raise EngineError(f"{self._spec.name}: {error}") from None


@contextlib.asynccontextmanager
async def _connection(url: Url) -> AsyncIterator[HttpConnection]:
    connection = await HttpConnection.open(url)
    try:
        yield connection
    finally:
        await connection.close()


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _free_port() -> int:
    """Return a port that nobody has at this moment: such servers cannot be handed a socket."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
