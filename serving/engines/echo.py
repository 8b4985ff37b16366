"""An engine without a model: it says the prompt again, word by word, at a pace that is asked for.

For tests and for trying out everything around a model. It needs no files and loads at once.
"""

import asyncio
import os
import random
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Annotated

from serving.engines.base import EngineError, Piece
from serving.openai import ChatPrompt, RequestFault, TextPrompt, TextRequest
from serving.settings import Range
from serving.text import StopWindow


@dataclass(frozen=True, kw_only=True)
class EchoSettings:
    """Pace and faults.

    `token_seconds` passes before every token, `slow_seconds` more before the first of a `slow_share` of the
    requests; a `fail_share` is answered 500. `tokens` is the least length of an answer (the prompt is said
    again and again). `load_seconds` passes before it is ready, `load_error` makes loading fail with that
    text. The request that follows `crash_after_requests` others (0: none) ends the process at once with
    status 70. The very first request is spared all of it: it is the worker's own readiness check.
    """

    token_seconds: Annotated[float, Range(0, 60)] = 0.0
    tokens: Annotated[int, Range(0, 1_000_000)] = 0
    slow_seconds: Annotated[float, Range(0, 600)] = 0.3
    slow_share: Annotated[float, Range(0, 1)] = 0.0
    fail_share: Annotated[float, Range(0, 1)] = 0.0
    load_seconds: Annotated[float, Range(0, 3_600)] = 0.0
    load_error: str = ""
    crash_after_requests: Annotated[int, Range(0, 1_000_000_000)] = 0
    seed: int = 0


class EchoEngine:
    """A TextEngine whose tokens are words with the spaces after them."""

    device = "cpu"

    def __init__(self, settings: EchoSettings) -> None:
        self._settings = settings
        self._random = random.Random(settings.seed)  # noqa: S311 - which requests fail is no secret
        self._seen = -1

    async def start(self) -> None:
        await asyncio.sleep(self._settings.load_seconds)
        if self._settings.load_error:
            raise EngineError(self._settings.load_error)

    async def died(self) -> str:
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    async def stop(self) -> None:
        return

    async def generate(self, request: TextRequest) -> AsyncGenerator[Piece, None]:
        settings = self._settings
        self._seen += 1
        if self._seen > 0:
            await self._strike()
        prompt = re.findall(r"\S+\s*|\s+", _words(request))
        if not prompt:
            raise RequestFault.invalid("The prompt is empty", param="prompt")
        wanted = max(len(prompt), settings.tokens)
        length = min(wanted, request.sampling.max_tokens or wanted)
        window = StopWindow(request.sampling.stop)
        for count in range(1, length + 1):
            if settings.token_seconds:
                await asyncio.sleep(settings.token_seconds)
            word = prompt[(count - 1) % len(prompt)]
            text = window.feed(word if word[-1].isspace() or count == wanted else word + " ")
            if window.stopped:
                yield Piece(text, len(prompt), count, "stop")
                break
            if count == length:
                text += window.flush()
                yield Piece(text, len(prompt), count, "stop" if length == wanted else "length")
                break
            yield Piece(text, len(prompt), count)

    async def _strike(self) -> None:
        settings = self._settings
        if 0 < settings.crash_after_requests < self._seen:
            os._exit(70)
        slow, fails = self._random.random(), self._random.random()
        if slow < settings.slow_share:
            await asyncio.sleep(settings.slow_seconds)
        if fails < settings.fail_share:
            raise RequestFault.internal("the echo engine was asked to fail a share of its requests")


def _words(request: TextRequest) -> str:
    prompt = request.prompt
    if isinstance(prompt, ChatPrompt):
        return prompt.messages[-1].content
    if isinstance(prompt, TextPrompt):
        return prompt.text
    return " ".join(str(token) for token in prompt.ids)
