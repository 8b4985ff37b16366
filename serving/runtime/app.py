"""The app of a service: its routes, processes and indicators, as users write it. Imports nothing heavy."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from serving.jobs.job import JobPolicy, OnRelease
from serving.runtime.context import runtime
from serving.runtime.errors import AppError

F = TypeVar("F", bound=Callable[..., Any])
MAX_BODY_BYTES = 32 * 2**20
_PART = r"(?:[A-Za-z0-9._~-]+|\{[A-Za-z_][A-Za-z0-9_]*\})"
_PATH = re.compile(rf"/|(?:/{_PART})+")
RESERVED = ("/healthz", "/metrics", "/openapi.json")


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


Kind = Literal["call", "stream", "job", "control"]


@dataclass(frozen=True)
class AppRoute:
    """A handler and its path. `warm_up`: a body that is sent to it before the service is ready, or a function
    that makes it."""

    kind: Kind
    method: str
    path: str
    handler: Callable[..., Any]
    max_bytes: int = MAX_BODY_BYTES
    timeout_seconds: float | None = None
    media_type: str = ""
    warm_up: Any = None
    job: Mapping[str, Any] = field(default_factory=dict)

    def warm_up_value(self) -> Any:
        """Return the body to warm up with; None: there is none."""
        return self.warm_up() if callable(self.warm_up) else self.warm_up


@runtime_checkable
class KeptProcess(Protocol):
    """Work of a process that says when it is ready."""

    load_timeout_seconds: float

    def keep(self, ready: Callable[[], None]) -> None: ...


@dataclass(frozen=True)
class OwnProcess:
    """A process of the user's own: a function of the app, or a command."""

    name: str
    target: Callable[[], Any] | Sequence[str] | KeptProcess
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
        self.routes: list[AppRoute] = []
        self.own_processes: list[OwnProcess] = []
        self.indicators: dict[str, Indicator] = {}

    def get(self, path: str, **options: Any) -> Callable[[F], F]:
        return self._route("call", "GET", path, options)

    def post(self, path: str, **options: Any) -> Callable[[F], F]:
        """`max_bytes`, `timeout_seconds` and `warm_up` as in `AppRoute`."""
        return self._route("call", "POST", path, options)

    def stream(self, path: str, **options: Any) -> Callable[[F], F]:
        """The handler is a generator: what it yields is sent at once, as server-sent events, or as it is when
        `media_type` names another type."""
        return self._route("stream", "POST", path, options)

    def control(self, method: str, path: str, **options: Any) -> Callable[[F], F]:
        """A route for whoever operates the worker: no gateway passes it on, no slot is needed, nothing is
        counted. It answers while all of `processes` are busy, by a process of those for jobs."""
        return self._route("control", method, path, options)

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
                route = AppRoute(kind, method, path, handler, **options)
            except TypeError as error:
                raise AppError(f"{path}: {error}") from None
            if kind == "stream" and not (
                inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler)
            ):
                raise AppError(f"{path}: the handler of a stream must be a generator (use yield)")
            self.routes.append(route)
            return handler

        return add
