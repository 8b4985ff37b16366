"""The vLLM engine: `vllm serve` as a child, OpenAI requests forwarded to it.

vLLM batches continuously by itself; the slots of the worker bound what it is given at once, so that busy,
queue and refusal mean the same for every engine.
"""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Self

from serving.engines.base import EngineError, Meter
from serving.http_client import HttpConnection, HttpError, Url
from serving.leash import end_with_parent
from serving.openai import Call, RequestFault
from serving.settings import SettingsError
from serving.worker_command import WorkerCommand

_FLAG = re.compile(r"[a-z][a-z0-9-]*")
# Set by the worker, or a way to run code or to listen elsewhere that a version's file must not have.
_REFUSED = re.compile(
    r"host|port|nnodes|node-rank|master-addr|master-port|uds|grpc|model|served-model-name|api-key|api-server-count|config|headless|root-path|ssl-.*"
    r"|middleware|trust-remote-code|.*-plugin|.*-cls|tool-server|allowed-.*|hf-token|code-revision"
)
STOP_WITHIN_SECONDS = 15.0


@dataclass(frozen=True)
class VllmSettings:
    """`flags` become `--flag=value` of `vllm serve`; true and false become `--flag` and `--no-flag`."""

    flags: Mapping[str, Any]
    load_timeout_seconds: float = 1_800.0

    @classmethod
    def read(cls, data: Mapping[str, Any], *, where: str) -> Self:
        """From a JSON object of flags, with `-` or `_` in their names, and `load_timeout_seconds`.
        Raises SettingsError."""
        flags = {str(name).replace("_", "-"): value for name, value in data.items()}
        timeout = flags.pop("load-timeout-seconds", cls.load_timeout_seconds)
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 1 <= timeout <= 86_400:
            raise SettingsError(f"{where}: load_timeout_seconds must be from 1 to 86400")
        for name, value in flags.items():
            if not _FLAG.fullmatch(name):
                raise SettingsError(f"{where}: {name!r} is not the name of an option of vllm serve")
            if _REFUSED.fullmatch(name):
                raise SettingsError(
                    f"{where}: {name} is set by the worker or not allowed in a version's settings"
                )
            if value is None:
                raise SettingsError(f"{where}: {name} must not be null")
        return cls(flags=flags, load_timeout_seconds=float(timeout))

    def arguments(self) -> list[str]:
        arguments: list[str] = []
        for name, value in self.flags.items():
            if isinstance(value, bool):
                arguments.append(f"--{name}" if value else f"--no-{name}")
            elif isinstance(value, list):
                arguments += [f"--{name}", *map(str, value)]
            else:
                arguments.append(f"--{name}={json.dumps(value) if isinstance(value, dict) else value}")
        return arguments


class VllmEngine:
    """An Engine that owns one `vllm serve` process, listening on a socket in a directory that only this user
    may enter: vLLM's own key guards only a part of its paths."""

    def __init__(self, command: WorkerCommand, settings: VllmSettings) -> None:
        self._command = command
        self._settings = settings
        self._child: asyncio.subprocess.Process | None = None
        self._said: deque[str] = deque(maxlen=20)
        self._listening: asyncio.Task[None] | None = None
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._socket = ""

    @property
    def device(self) -> str:
        return "cuda" if self._command.device == "auto" else self._command.device

    async def start(self) -> None:
        program = shutil.which("vllm")
        if program is None:
            raise EngineError(
                "vllm is not on this worker's PATH: install the extra slipway[vllm] or use a vLLM image, "
                "or serve this version with the transformers engine"
            )
        self._directory = tempfile.TemporaryDirectory(prefix="slipway-vllm-", ignore_cleanup_errors=True)
        self._socket = f"{self._directory.name}/http"
        self._child = child = await asyncio.create_subprocess_exec(
            *self.argv(program),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment(),
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
                f"vllm was not ready within {self._settings.load_timeout_seconds:g} s{self._last_words()}"
            ) from None

    def argv(self, program: str) -> list[str]:
        """Of `vllm serve`; on the other machines of a worker that spans several, one without an API."""
        from serving.app import served_names

        limits = [] if "max-num-seqs" in self._settings.flags else [f"--max-num-seqs={self._command.slots}"]
        return [
            program,
            "serve",
            str(self._command.model_dir),
            *(["--headless"] if self._command.node_rank else [f"--uds={self._socket}"]),
            "--served-model-name",
            *served_names(self._command),
            *limits,
            *self._settings.arguments(),
            *self._group(),
        ]

    def _group(self) -> list[str]:
        """As in vLLM's manual, "Parallelism and Scaling": without Ray."""
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
        if self._child is None:
            raise EngineError("vllm was not started")
        status = await self._child.wait()
        return f"vllm ended with status {status}{self._last_words()}"

    async def answer(self, call: Call, meter: Meter) -> bytes:
        async with self._post(call, call.body) as connection:
            answer = await _whole(connection)
        with contextlib.suppress(ValueError, AttributeError):
            _meter_usage(json.loads(answer).get("usage"), meter)
        return answer

    async def stream(self, call: Call, meter: Meter) -> AsyncGenerator[bytes, None]:
        options = dict(call.body.get("stream_options") or {}) | {"include_usage": True}
        body = {**call.body, "stream": True, "stream_options": options}
        async with self._post(call, body) as connection, aclosing(_events(connection)) as events:
            async for payload in events:
                if payload == b"[DONE]":
                    return
                if _metered(payload, meter) or call.include_usage:
                    yield payload
        raise EngineError("vllm broke the answer off")

    async def metrics(self) -> bytes:
        url = self._url("/metrics")
        try:
            async with asyncio.timeout(1.0), _connection(url) as connection:
                status = await connection.request("GET", url)
                text = await _whole(connection)
                return text if status == 200 else b""
        except (HttpError, TimeoutError):
            return b""

    async def stop(self) -> None:
        child, self._child = self._child, None
        if child is not None and child.returncode is None:
            _signal_group(child.pid, signal.SIGTERM)
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

    def _environment(self) -> dict[str, str]:
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if self._command.device == "cpu" else {}
        return {**os.environ, **hidden}

    async def _until_healthy(self, child: asyncio.subprocess.Process) -> None:
        url = self._url("/health")
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
        return Url("vllm", 80, path, socket=self._socket)

    @contextlib.asynccontextmanager
    async def _post(self, call: Call, body: Mapping[str, Any]) -> AsyncIterator[HttpConnection]:
        """A connection whose 200 answer waits to be read. Raises RequestFault, EngineError."""
        url = self._url(call.route)
        headers = {"content-type": "application/json"}
        data = json.dumps({**body, "model": call.model}).encode()
        try:
            async with _connection(url) as connection:
                status = await connection.request("POST", url, headers=headers, body=data)
                if status != 200:
                    raise _refusal(status, await _whole(connection))
                yield connection
        except HttpError as error:
            raise EngineError(f"vllm: {error}") from None


@contextlib.asynccontextmanager
async def _connection(url: Url) -> AsyncIterator[HttpConnection]:
    connection = await HttpConnection.open(url)
    try:
        yield connection
    finally:
        await connection.close()


async def _whole(connection: HttpConnection) -> bytes:
    return b"".join([part async for part in connection.body()])


async def _events(connection: HttpConnection) -> AsyncGenerator[bytes, None]:
    """The `data:` of server-sent events; vLLM puts each on one line."""
    rest = b""
    async with aclosing(connection.body()) as parts:
        async for part in parts:
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                if line.startswith(b"data:"):
                    yield line[5:].strip()


def _metered(payload: bytes, meter: Meter) -> bool:
    """Whether the chunk is more than the usage that was asked for the meter's sake."""
    try:
        chunk = json.loads(payload)
        if chunk.get("error"):
            raise RequestFault.forwarded(500, {"error": chunk["error"]})
        _meter_usage(chunk.get("usage"), meter)
        choices = chunk.get("choices")
        if any((choice.get("delta") or {}).get("content") or choice.get("text") for choice in choices):
            meter.produced(1)
        return bool(choices)
    except (ValueError, AttributeError, TypeError):
        raise EngineError("vllm sent a chunk that is not of OpenAI's shape") from None


def _meter_usage(usage: Mapping[str, Any] | None, meter: Meter) -> None:
    if usage:
        meter.used(
            prompt_tokens=int(usage.get("prompt_tokens") or 0),
            completion_tokens=int(usage.get("completion_tokens") or 0),
        )


def _refusal(status: int, answer: bytes) -> RequestFault:
    try:
        document = json.loads(answer)
    except ValueError:
        document = None
    if isinstance(document, dict) and "error" in document:
        return RequestFault.forwarded(status, document)
    if isinstance(document, dict) and document.get("object") == "error":  # vLLM before 0.10
        return RequestFault.forwarded(status, {"error": document})
    return RequestFault(status, f"vllm answered {status}: {answer[:300].decode(errors='replace')}")


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
