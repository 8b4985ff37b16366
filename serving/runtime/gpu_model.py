"""Models that live in processes of their own: how they are written, and how handlers call them."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from serving.runtime.batching import DEFAULT_MAX_SIZE, LATENCY_MAX_SIZE, BatchRule
from serving.runtime.context import runtime
from serving.runtime.errors import AppError

F = TypeVar("F", bound=Callable[..., Any])


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


def get(model: type[GpuModel]) -> ModelHandle:
    """The model in its processes. Raises AppError outside of a service and of `serve.in_process`."""
    if (current := runtime.get()) is None:
        raise AppError(
            f"serve.get({model.__name__}) works in handlers of a service; in a test, use "
            f"`with serve.in_process({model.__name__}): ...` or call the model's methods directly"
        )
    return current.handle(model)


@contextmanager
def in_process(*models: type[GpuModel], files: Mapping[str, Path] | Path = Path()) -> Iterator[None]:
    """Load the models here, for tests; `serve.get` calls them directly."""
    from serving.runtime.in_process import InProcess

    token = runtime.set(InProcess(models, Files(files) if isinstance(files, Path) else files))
    try:
        yield
    finally:
        runtime.reset(token)
