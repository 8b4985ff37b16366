"""Models in the process that calls them, for tests of handlers."""

import asyncio
import math
import select
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from serving.runtime.errors import AppError
from serving.runtime.gpu_model import GpuModel


class InProcess:
    """A Runtime without processes."""

    def __init__(self, models: Sequence[type[GpuModel]], files: Mapping[str, Path]) -> None:
        self._models = {model: model() for model in models}
        for model in self._models.values():
            model.load(files)
        self.indicated: list[tuple[str, float]] = []

    def handle(self, model: type[GpuModel]) -> "_Direct":
        if model not in self._models:
            raise AppError(f"serve.in_process was not given {model.__name__}")
        return _Direct(self._models[model])

    def indicate(self, name: str, value: float) -> None:
        self.indicated.append((name, value))

    def called(self, method: str, sent_at: int, queued: int, worked: int, batch_size: int) -> None:
        """Nobody counts here."""

    def wait_for(self, descriptor: int, seconds: float) -> None:
        limit = None if math.isinf(seconds) else max(0.0, seconds)
        if not select.select([descriptor], [], [], limit)[0]:
            raise TimeoutError("the deadline of the request has passed")


class _Direct:
    def __init__(self, model: GpuModel) -> None:
        self._model = model

    def run(self, method: str, *arguments: Any) -> Any:
        function = getattr(self._model, method)
        if hasattr(function, "__batch_rule__"):
            (result,) = function(*([argument] for argument in arguments))
            return result
        return function(*arguments)

    async def run_async(self, method: str, *arguments: Any) -> Any:
        return await asyncio.to_thread(self.run, method, *arguments)

    def stream(self, method: str, *arguments: Any) -> Iterator[Any]:
        yield from getattr(self._model, method)(*arguments)

    def empty(self, shape: Sequence[int], dtype: Any = "float32") -> Any:
        import numpy as np

        return np.empty(shape, dtype)
