"""What a worker asks of an engine."""

from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from serving.openai import Call, TextRequest


class EngineError(Exception):
    """The engine cannot start, or died: the text says why, in words for people."""


class Meter(Protocol):
    """The means by which an engine reports the progress of one request, as it happens."""

    def produced(self, tokens: int) -> None:
        """Report that so many tokens of the answer have come into being just now."""

    def used(self, *, prompt_tokens: int, completion_tokens: int) -> None:
        """The final count of the request."""

    def finished(self, reason: str) -> None:
        """Report why the answer ended, by OpenAI's `finish_reason`."""


class Engine(Protocol):
    """Answers OpenAI calls. Every method runs on the event loop and must not block it."""

    @property
    def device(self) -> str:
        """`cpu`, `cuda:0`, ...; empty until it is known."""

    @property
    def apis(self) -> frozenset[str]:
        """Return the APIs that it answers: names of `serving.engines.spec`, as `OpenAiRoute.api` has them."""

    @property
    def adapters(self) -> Collection[str]:
        """LoRA adapters that requests may name now, in the place of the model."""

    async def load_adapter(self, name: str, directory: Path) -> None:
        """Load the adapter in PEFT's layout in `directory`. Raises RequestFault, EngineError."""

    async def unload_adapter(self, name: str) -> None:
        """Raises RequestFault, EngineError."""

    async def start(self) -> None:
        """Returns when the model is loaded. Raises EngineError."""

    async def died(self) -> str:
        """Returns why, when the engine has died after its start; otherwise never."""

    async def answer(self, call: Call, meter: Meter) -> bytes:
        """The whole answer as a JSON document. Raises RequestFault. Cancelling ends the generation."""

    def stream(self, call: Call, meter: Meter) -> AsyncGenerator[bytes, None]:
        """The JSON documents of a streamed answer in order, without framing and without `[DONE]`.

        Raises RequestFault before the first of them, or EngineError later. Closing ends the generation.
        """

    async def metrics(self) -> bytes:
        """Prometheus text of the engine's own, may be empty."""

    async def stop(self) -> None:
        """Frees everything; works in any state, also twice."""


FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Some text of an answer. Token counts are totals so far; the last piece has a finish reason."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    finish_reason: FinishReason | None = None


class TextEngine(Protocol):
    """An engine that makes text and leaves the OpenAI dialect to `serving.engines.answers.TextAnswers`."""

    @property
    def device(self) -> str: ...

    async def start(self) -> None:
        """Start, like Engine.start."""

    async def died(self) -> str:
        """Wait for its death, like Engine.died."""

    def generate(self, request: TextRequest) -> AsyncGenerator[Piece, None]:
        """At least one piece, exactly one with a finish reason, as the last. Raises RequestFault.

        Closing the iterator ends the generation.
        """

    async def stop(self) -> None:
        """Stop, like Engine.stop."""


@runtime_checkable
class AdaptableEngine(Protocol):
    """A text engine that takes LoRA adapters while it runs."""

    @property
    def adapters(self) -> Collection[str]: ...

    async def load_adapter(self, name: str, directory: Path) -> None: ...

    async def unload_adapter(self, name: str) -> None: ...
