"""The process that a handler runs in, and the request that it works on."""

import contextvars
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from serving.runtime.gpu_model import GpuModel, ModelHandle


class Runtime(Protocol):
    """The process that a handler runs in."""

    def handle(self, model: "type[GpuModel]") -> "ModelHandle": ...

    def indicate(self, name: str, value: float) -> None: ...

    def called(self, method: str, sent_at: int, queued: int, worked: int, batch_size: int) -> None:
        """Count a call of a model that the handler heard of otherwise; times in monotonic nanoseconds."""

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


def deadline() -> float:
    """Seconds that are left for this request; infinite when it has no deadline."""
    return context.get().deadline - time.monotonic()
