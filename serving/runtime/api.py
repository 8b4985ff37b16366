"""What users write a service with (public as `slipway.serve`). Imports nothing heavy."""

import contextvars
import inspect
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from serving.runtime.llm import LlmEngine

from serving.jobs.job import JobPolicy, OnRelease
from serving.runtime.batching import DEFAULT_MAX_SIZE, LATENCY_MAX_SIZE, BatchRule

F = TypeVar("F", bound=Callable[..., Any])
MAX_BODY_BYTES = 32 * 2**20
_PART = r"(?:[A-Za-z0-9._~-]+|\{[A-Za-z_][A-Za-z0-9_]*\})"
_PATH = re.compile(rf"/|(?:/{_PART})+")
RESERVED = ("/healthz", "/metrics", "/openapi.json")


class AppError(Exception):
    """The service's code cannot be meant so; the text says where and what would be right."""


class Problem(Exception):
    """An error answer (RFC 9457). Raise it in a handler, or in a model's method."""

    def __init__(
        self, status: int, title: str, detail: str = "", *, errors: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        super().__init__(f"{status} {title}: {detail}" if detail else f"{status} {title}")
        if not 400 <= status <= 599:
            raise ValueError(f"a problem has a status from 400 to 599, not {status}")
        self.status, self.title, self.detail, self.errors = status, title, detail, list(errors)

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = {"type": "about:blank", "title": self.title, "status": self.status}
        if self.detail:
            document["detail"] = self.detail
        return document | ({"errors": self.errors} if self.errors else {})


class Cancelled(BaseException):
    """Raised inside a handler whose client has left. Not an Exception: a broad `except` does not keep it."""


@dataclass
class Request:
    """A request as a handler without a body type sees it. Members of a JSON object, or fields of a form,
    are attributes too: `request.picture`. A subclass may narrow `content_types` and `max_bytes`.
    """

    content_types: ClassVar[tuple[str, ...]] = ()
    max_bytes: ClassVar[int | None] = None

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    path_params: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> Any:
        """Raises Problem (400) when the body is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise Problem(400, "Malformed body", f"The body is not JSON: {error}") from None

    @property
    def is_form(self) -> bool:
        kind = self.headers.get("content-type", "")
        # `curl -d '{...}'` calls JSON a form.
        is_json = self.body.lstrip()[:1] in (b"{", b"[")
        is_encoded = kind.startswith("application/x-www-form-urlencoded") and not is_json
        return is_encoded or kind.startswith("multipart/form-data")

    def form(self) -> dict[str, Any]:
        """Fields of a form as text, files as bytes. Raises Problem (400)."""
        from serving.runtime.forms import read_form

        return read_form(self.headers.get("content-type", ""), self.body)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        fields = self.form() if self.is_form else self.json()
        if not isinstance(fields, dict) or name not in fields:
            missing = [{"field": name, "detail": "missing"}]
            raise Problem(422, "Invalid request", f"The field {name} is missing.", errors=missing)
        return fields[name]


@dataclass
class Response:
    """An answer with a status or headers of its own."""

    body: bytes | str = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = "application/octet-stream"


class Files(Mapping[str, Path]):
    """The files of a version by their name without its suffix, or by their path."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __getitem__(self, name: str) -> Path:
        exact = self.directory / name
        if exact.exists() and exact.resolve().is_relative_to(self.directory.resolve()):
            return exact
        found = [path for path in self._files() if path.stem == name]
        if len(found) == 1:
            return found[0]
        there = ", ".join(sorted(path.name for path in self.directory.glob("*"))[:20])
        reason = f"{len(found)} of them have this name" if found else f"there are: {there or 'none'}"
        raise KeyError(f"no file {name!r} in {self.directory}: {reason}")

    def __iter__(self) -> Iterator[str]:
        return (path.stem for path in self._files())

    def __len__(self) -> int:
        return len(self._files())

    def _files(self) -> list[Path]:
        return sorted(path for path in self.directory.glob("*") if path.suffix != ".py")


class GpuModel:
    """A model that lives in processes of its own. Subclass it, load it in `load`, and call its methods by
    `serve.get(Model).run(...)`. In a plain test it is a plain object.

    `processes`: how many of it, or "per_gpu" for one on each GPU (each then sees only its own). `cores`: the
    processor cores that one may use; empty: all. `timeout_seconds`: a method that takes longer is ended with
    its process. `load_timeout_seconds`: the same for `load`. `memory_mb`: of host memory, above which it is
    replaced; 0: no limit.
    """

    processes: int | Literal["per_gpu"] = 1
    cores: Sequence[int] = ()
    timeout_seconds: float = 60.0
    load_timeout_seconds: float = 1_800.0
    memory_mb: int = 0

    def load(self, files: Mapping[str, Path]) -> None:
        """Called once in each process."""


def batched(
    *,
    max_size: int | None = None,
    max_wait_ms: float | None = None,
    latency_ms: float | None = None,
    bucket: Callable[..., Any] | None = None,
) -> Callable[[F], F]:
    """Batch the calls of a method of a GpuModel that takes lists and returns a list.

    At most `max_size` of them, none waiting longer than `max_wait_ms` for others. Or `latency_ms`: size and
    wait follow from measured times, so that a call is answered within it. `bucket` is given a call's
    arguments: only calls with equal results share a batch (`serve.shape`, `serve.padded_shape`).
    """
    if latency_ms is not None and max_wait_ms is not None:
        raise AppError("serve.batched takes max_wait_ms or latency_ms, not both")
    for name, value in (("max_wait_ms", max_wait_ms), ("latency_ms", latency_ms)):
        if value is not None and not 0 <= value <= 600_000:
            raise AppError(f"serve.batched: {name} must be from 0 to 600000")
    size = max_size if max_size is not None else DEFAULT_MAX_SIZE if latency_ms is None else LATENCY_MAX_SIZE
    if not 1 <= size <= 65_536:
        raise AppError("serve.batched: max_size must be from 1 to 65536")
    rule = BatchRule(
        max_size=size,
        max_wait=(max_wait_ms or 0.0) / 1_000,
        latency=None if latency_ms is None else latency_ms / 1_000,
        bucket=bucket,
    )

    def mark(method: F) -> F:
        if inspect.iscoroutinefunction(method) or inspect.isgeneratorfunction(method):
            raise AppError(f"serve.batched: {method.__qualname__} must be a plain method that returns a list")
        method.__batch_rule__ = rule  # type: ignore[attr-defined]
        return method

    return mark


class ModelHandle(Protocol):
    """A model in its processes, as `serve.get` gives it."""

    def run(self, method: str, *arguments: Any) -> Any:
        """Blocks until the answer is there. Raises Problem: 503 when the model's process is gone or reloads,
        504 past the request's deadline, 500 when the method raised."""

    async def run_async(self, method: str, *arguments: Any) -> Any:
        """The same for async handlers; several may wait side by side."""

    def stream(self, method: str, *arguments: Any) -> Iterator[Any]:
        """Yield what a generator method yields, as it comes."""

    def empty(self, shape: Sequence[int], dtype: Any = "float32") -> Any:
        """A numpy array in the memory that the model's process reads: fill it and pass it to `run`, and
        nothing is copied."""


class Runtime(Protocol):
    """The process that a handler runs in."""

    def handle(self, model: type[GpuModel]) -> ModelHandle: ...

    def indicate(self, name: str, value: float) -> None: ...

    def wait_for(self, descriptor: int, seconds: float) -> None:
        """Blocks until there is something to read. Raises Cancelled when the client leaves, TimeoutError."""


@dataclass
class RequestContext:
    """Context of the request that is worked on. `deadline`: monotonic seconds."""

    deadline: float = float("inf")
    priority: int = 0


runtime: contextvars.ContextVar[Runtime | None] = contextvars.ContextVar("slipway_runtime", default=None)
context: contextvars.ContextVar[RequestContext] = contextvars.ContextVar(
    "slipway_request",
    default=RequestContext(),  # noqa: B039
)


def get(model: type[GpuModel]) -> ModelHandle:
    """The model in its processes. Raises AppError outside of a service and of `serve.in_process`."""
    if (current := runtime.get()) is None:
        raise AppError(
            f"serve.get({model.__name__}) works in handlers of a service; in a test, use "
            f"`with serve.in_process({model.__name__}): ...` or call the model's methods directly"
        )
    return current.handle(model)


def deadline() -> float:
    """Seconds that are left for this request; infinite when it has no deadline."""
    return context.get().deadline - time.monotonic()


@contextmanager
def in_process(*models: type[GpuModel], files: Mapping[str, Path] | Path = Path()) -> Iterator[None]:
    """Load the models here, for tests; `serve.get` calls them directly."""
    from serving.runtime.in_process import InProcess

    token = runtime.set(InProcess(models, Files(files) if isinstance(files, Path) else files))
    try:
        yield
    finally:
        runtime.reset(token)


@dataclass(frozen=True)
class Indicator:
    """A figure of the service's own that its versions are compared by: its mean per request."""

    name: str
    help: str = ""
    lower_is_better: bool = True

    def observe(self, value: float = 1.0) -> None:
        """Counts `value` for the request that is worked on; without a runtime it does nothing."""
        if (current := runtime.get()) is not None:
            current.indicate(self.name, float(value))


Kind = Literal["call", "stream", "job"]


@dataclass(frozen=True)
class Route:
    """A handler and its path. `warm_up`: a body that is sent to it before the service is ready."""

    kind: Kind
    method: str
    path: str
    handler: Callable[..., Any]
    max_bytes: int = MAX_BODY_BYTES
    timeout_seconds: float | None = None
    media_type: str = ""
    warm_up: Any = None
    job: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OwnProcess:
    """A process of the user's own: a function of the app, or a command."""

    name: str
    target: "Callable[[], Any] | Sequence[str] | LlmEngine"
    count: int = 1

    @property
    def load_seconds(self) -> float:
        """Return the limit of a model that says when it is ready; 0: the usual limit."""
        seconds: float = getattr(self.target, "load_timeout_seconds", 0.0)
        return seconds


class App:
    """A service: its routes, and how many CPU processes run their handlers, one request each at a time."""

    def __init__(
        self,
        *,
        processes: int = 2,
        abilities: Sequence[str] = (),
        job_processes: int = 1,
        timeout_seconds: float = 300.0,
        memory_mb: int = 0,
        title: str = "",
    ) -> None:
        """`job_processes` run `job` routes, beside `processes`. A request that takes longer than
        `timeout_seconds` is answered 504 and its process replaced if it goes on. `memory_mb`: of a CPU
        process, above which it is replaced between requests; 0: no limit."""
        if not 1 <= processes <= 512 or not 1 <= job_processes <= 64:
            raise AppError("serve.App: processes must be from 1 to 512, job_processes from 1 to 64")
        if not 0 < timeout_seconds <= 86_400:
            raise AppError("serve.App: timeout_seconds must be above 0 and at most 86400")
        if isinstance(abilities, str):
            raise AppError('serve.App: abilities is a list: abilities=["' + abilities + '"]')
        self.processes, self.job_processes = processes, job_processes
        self.abilities = tuple(abilities)
        self.timeout_seconds, self.memory_mb, self.title = timeout_seconds, memory_mb, title
        self.routes: list[Route] = []
        self.own_processes: list[OwnProcess] = []
        self.indicators: dict[str, Indicator] = {}

    def get(self, path: str, **options: Any) -> Callable[[F], F]:
        return self._route("call", "GET", path, options)

    def post(self, path: str, **options: Any) -> Callable[[F], F]:
        """`max_bytes`, `timeout_seconds` and `warm_up` as in `Route`."""
        return self._route("call", "POST", path, options)

    def stream(self, path: str, **options: Any) -> Callable[[F], F]:
        """The handler is a generator: what it yields is sent at once, as server-sent events, or as it is when
        `media_type` names another type."""
        return self._route("stream", "POST", path, options)

    def job(
        self,
        path: str,
        *,
        attempts: int = 3,
        backoff_seconds: float = 1.0,
        deadline_seconds: float = 86_400.0,
        keep_seconds: float = 86_400.0,
        on_release: OnRelease = "next",
        **options: Any,
    ) -> Callable[[F], F]:
        """Long work: answered 202 at once; state, result, events, cancel and retry below the path. A handler
        with a `progress` parameter calls it: `progress(0.5, "half")`.

        An attempt that fails with 5xx, or whose process or worker dies, is repeated after a pause that
        doubles. `on_release`: what waits when its version is released away is done by the `next` one, or by
        workers of the `same` one, which stay for it.
        """
        try:
            policy = JobPolicy(
                attempts=attempts,
                backoff_seconds=backoff_seconds,
                deadline_seconds=deadline_seconds,
                keep_seconds=keep_seconds,
                on_release=on_release,
            )
        except ValueError as error:
            raise AppError(f"{path}: {error}") from None
        return self._route("job", "POST", path, options | {"job": asdict(policy)})

    def process(self, target: Any = None, *, name: str = "", count: int = 1) -> Any:
        """A process of the user's own, kept running: `app.process(["python", "-m", "feed"])`, or a decorator
        of a function."""
        if target is None:
            return lambda function: self.process(function, name=name, count=count) or function
        name = name or (target.__name__ if callable(target) else Path(target[0]).name)
        if count < 1 or any(one.name == name for one in self.own_processes):
            raise AppError(f"app.process: {name}: count must be at least 1, and its name not taken")
        is_command = isinstance(target, list | tuple) and all(isinstance(word, str) for word in target)
        if not callable(target) and not is_command:
            raise AppError("app.process takes a function, or a command as a list of words")
        self.own_processes.append(OwnProcess(name, target, count))
        return target

    def indicator(self, name: str, help: str = "", *, lower_is_better: bool = True) -> Indicator:
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name):
            raise AppError(f"app.indicator: {name!r} must be a word of small letters, digits and _")
        return self.indicators.setdefault(name, Indicator(name, help, lower_is_better))

    def _route(self, kind: Kind, method: str, path: str, options: Mapping[str, Any]) -> Callable[[F], F]:
        if not _PATH.fullmatch(path):
            raise AppError(f"{path!r} is not a path such as /detect or /pictures/{{name}}")
        if path in RESERVED:
            raise AppError(f"{path} is the runtime's own: take another path")
        if any(route.path == path and route.method == method for route in self.routes):
            raise AppError(f"{method} {path} has a handler already")

        def add(handler: F) -> F:
            try:
                route = Route(kind, method, path, handler, **options)
            except TypeError as error:
                raise AppError(f"{path}: {error}") from None
            if kind == "stream" and not (
                inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler)
            ):
                raise AppError(f"{path}: the handler of a stream must be a generator (use yield)")
            self.routes.append(route)
            return handler

        return add
