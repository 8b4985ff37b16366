"""Language models in an app: an engine as a process of its own, asked from handlers (`serve.llm`)."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

from serving.engines.registry import ENGINES, WORKER_ENGINES
from serving.openai import OpenAiRoute
from serving.runtime.context import deadline, runtime
from serving.runtime.errors import AppError, Problem
from serving.runtime.gpu_model import Files
from serving.worker_command import WORKER_ENVIRONMENT, WorkerCommand, default_environments

RUN_VARIABLE, ENVIRONMENTS_VARIABLE = "SLIPWAY_APP_RUN", "SLIPWAY_APP_ENVIRONMENTS"
"""Directory of an app's sockets, and of environments of engines; set by the front for its processes."""
LOOK_EVERY_SECONDS = 0.1
Document = dict[str, Any]
Messages = Sequence[Document]


def start_llm_engine(
    files: Mapping[str, Path] | Path | str,
    *,
    engine: str = "vllm",
    slots: int = 8,
    device: str = "auto",
    load_timeout_seconds: float = 1_800.0,
    **settings: Any,
) -> "LlmEngine":
    """An engine with the model whose files these are: a directory, or a `serve.Files`.

    At the top level of an app's file it gets a process of its own, shared by all others of the service, which
    is started again when it dies; the service is ready when it is. In a plain script it starts at its first
    request and ends with the script. `slots`: requests that it works on at once. `settings`: of the engine,
    by its own names or by those that engines share: tensor_parallel, pipeline_parallel, data_parallel,
    expert_parallel, prefix_caching, speculative, quantization, kv_cache_dtype, max_sequences, context_length.
    """
    directory = files.directory if isinstance(files, Files) else files
    if not isinstance(directory, str | Path) or not Path(directory).is_dir():
        raise AppError(f"serve.llm: {directory} is no directory with the files of a model")
    known = [name for name in WORKER_ENGINES if ENGINES[name].apis]
    if engine not in known:
        raise AppError(f"serve.llm: there is no engine {engine!r}; there are {', '.join(known)}")
    return LlmEngine(
        Path(directory).resolve(),
        engine=engine,
        slots=slots,
        device=device,
        load_timeout_seconds=load_timeout_seconds,
        settings=settings,
    )


class LlmEngine:
    """An engine, as handlers see it. Answers are documents of OpenAI's API; with `stream=True` they come in
    pieces. What the engine refuses, or cannot do, is a `serve.Problem`."""

    def __init__(
        self,
        directory: Path,
        *,
        engine: str,
        slots: int,
        device: str,
        load_timeout_seconds: float,
        settings: Mapping[str, Any],
    ) -> None:
        self.load_timeout_seconds = load_timeout_seconds
        self._directory, self._engine, self._slots, self._device = directory, engine, slots, device
        self._settings = dict(settings)
        self._socket = ""
        self._own: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()

    @overload
    def chat(
        self, messages: Sequence[Document], *, stream: Literal[False] = ..., **more: Any
    ) -> Document: ...
    @overload
    def chat(
        self, messages: Sequence[Document], *, stream: Literal[True], **more: Any
    ) -> Iterator[Document]: ...
    def chat(self, messages: Messages, *, stream: bool = False, **more: Any) -> Any:
        """`/v1/chat/completions`. `more`: members of the request: max_tokens, tools, response_format..."""
        return self._asked(OpenAiRoute.CHAT, {"messages": list(messages), **more}, stream=stream)

    @overload
    def completions(self, prompt: str, *, stream: Literal[False] = ..., **more: Any) -> Document: ...
    @overload
    def completions(self, prompt: str, *, stream: Literal[True], **more: Any) -> Iterator[Document]: ...
    def completions(self, prompt: str, *, stream: bool = False, **more: Any) -> Any:
        """`/v1/completions`."""
        return self._asked(OpenAiRoute.COMPLETIONS, {"prompt": prompt, **more}, stream=stream)

    def responses(self, input: str | Sequence[Document], *, stream: bool = False, **more: Any) -> Any:
        """`/v1/responses`."""
        return self._asked(OpenAiRoute.RESPONSES, {"input": input, **more}, stream=stream)

    def embeddings(self, input: str | Sequence[str], **more: Any) -> Document:
        """`/v1/embeddings`."""
        return self.forward(OpenAiRoute.EMBEDDINGS, {"input": input, **more})

    def rerank(self, query: str, documents: Sequence[str], **more: Any) -> Document:
        """`/v1/rerank`."""
        return self.forward(OpenAiRoute.RERANK, {"query": query, "documents": list(documents), **more})

    def forward(self, path: str, body: Mapping[str, Any]) -> Document:
        """The answer to a request as a client of the engine sends it."""
        with self._connection() as connection:
            response = self._sent(connection, path, {**body, "stream": False})
            document: Document = json.loads(response.read())
            return document

    def forward_stream(self, path: str, body: Mapping[str, Any]) -> Iterator[Document]:
        """The events of a streamed answer as they come. Who stops reading ends the generation."""
        with self._connection() as connection:
            response = self._sent(connection, path, {**body, "stream": True})
            for line in response:
                data = line.removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
                if data == b"[DONE]":
                    return
                if data:
                    document = json.loads(data)
                    if "error" in document and not document.get("choices"):
                        raise _problem(500, document)
                    yield document

    def _asked(self, path: str, body: Mapping[str, Any], *, stream: bool) -> Any:
        return self.forward_stream(path, body) if stream else self.forward(path, body)

    # Its process

    def bind(self, name: str) -> None:
        """Under which name the app has it. In a process of a service: where the others find it, too."""
        self._socket = f"{os.environ[RUN_VARIABLE]}/{name}.sock" if os.environ.get(RUN_VARIABLE) else ""

    def keep(self, ready: Callable[[], None]) -> None:
        """Runs the engine in this process's name until it ends. Raises AppError."""
        Path(self._socket).parent.mkdir(mode=0o700, exist_ok=True)
        worker = self._start(self._socket)
        self._until_ready(worker)
        ready()
        status = worker.wait()
        raise AppError(f"the engine {self._engine} ended with status {status}")

    def _start(self, path: str) -> "subprocess.Popen[bytes]":
        environments = os.environ.get(ENVIRONMENTS_VARIABLE)
        with contextlib.suppress(FileNotFoundError):
            Path(path).unlink()
        command = WorkerCommand(
            model_dir=self._directory,
            name="llm",
            deployment="app",
            service="llm",
            version_label="llm:local",
            engine=self._engine,
            host=f"unix:{path}",
            slots=self._slots,
            queue_limit=10_000,
            device=self._device,
            settings={**self._settings, **self._timeout_setting()},
            settle_seconds=0.0,
            grace_seconds=5.0,
            linger_seconds=2.0,
            environments=Path(environments) if environments else default_environments(),
            exit_with_parent=True,
        )
        return subprocess.Popen(command.argv(), env=os.environ | WORKER_ENVIRONMENT, stdin=subprocess.DEVNULL)

    def _timeout_setting(self) -> Document:
        is_program = ENGINES[self._engine].program is not None
        return {"load_timeout_seconds": self.load_timeout_seconds} if is_program else {}

    def _until_ready(self, worker: "subprocess.Popen[bytes]") -> None:
        end = time.monotonic() + self.load_timeout_seconds
        health: Document = {}
        while time.monotonic() < end and worker.poll() is None and health.get("state") != "failed":
            with contextlib.suppress(OSError, http.client.HTTPException), self._connection() as connection:
                connection.request("GET", "/healthz")
                health = json.loads(connection.getresponse().read())
            if health.get("state") == "ready":
                return
            time.sleep(LOOK_EVERY_SECONDS)
        worker.kill()
        reason = health.get("reason") or f"it was not ready within {self.load_timeout_seconds:g} s"
        raise AppError(f"the engine {self._engine} cannot start: {reason}")

    def close(self) -> None:
        """Ends the engine of a plain script; that of a service is the front's."""
        worker, self._own = self._own, None
        if worker is not None:
            worker.send_signal(signal.SIGTERM)
            worker.wait()
            shutil.rmtree(Path(self._socket).parent, ignore_errors=True)
            self._socket = ""

    @contextlib.contextmanager
    def _connection(self) -> "Iterator[_UnixConnection]":
        connection = _UnixConnection(self._socket)
        try:
            yield connection
        finally:
            connection.close()

    def _sent(
        self, connection: "_UnixConnection", path: str, body: Mapping[str, Any]
    ) -> http.client.HTTPResponse:
        with self._starting:
            if not self._socket:
                connection.path = self._socket = f"{tempfile.mkdtemp(prefix='slipway-llm-')}/llm.sock"
                self._own = self._start(self._socket)
                self._until_ready(self._own)
        try:
            connection.connect()
            connection.request(
                "POST", path, json.dumps(body).encode(), headers={"content-type": "application/json"}
            )
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise Problem(503, "LLM engine unavailable", f"{self._engine} does not answer: {error}") from None
        if response.status != 200:
            raw = response.read()
            try:
                document = json.loads(raw)
            except ValueError:
                document = {}
            raise _problem(response.status, document)
        return response


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self.path = path

    def connect(self) -> None:
        self.sock = _WatchedSocket(socket.AF_UNIX)
        self.sock.connect(self.path)


class _WatchedSocket(socket.socket):
    """Before each read it waits for the engine and for the front at once: a client may leave meanwhile."""

    def recv_into(self, *arguments: Any) -> int:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and (current := runtime.get()) is not None:
            try:
                current.wait_for(self.fileno(), deadline())
            except TimeoutError as error:
                raise Problem(504, "Deadline passed", str(error)) from None
        return super().recv_into(*arguments)


def _problem(status: int, document: object) -> Problem:
    error = document.get("error") if isinstance(document, dict) else None
    words = error.get("message") if isinstance(error, dict) else None
    return Problem(status if 400 <= status <= 599 else 502, "LLM engine refused", str(words or "")[:1_000])
