"""The OpenAI dialect around an engine that makes plain text."""

import json
import time
import uuid
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from pathlib import Path
from typing import Any

from serving.engines.base import AdaptableEngine, Meter, Piece, TextEngine
from serving.engines.spec import CHAT, COMPLETIONS
from serving.openai import Call, OpenAiRoute, RequestFault, text_request


class TextAnswers:
    """An Engine made of a TextEngine."""

    apis = frozenset({CHAT, COMPLETIONS})

    def __init__(self, engine: TextEngine) -> None:
        self._engine = engine

    @property
    def device(self) -> str:
        return self._engine.device

    async def start(self) -> None:
        await self._engine.start()

    async def died(self) -> str:
        return await self._engine.died()

    async def stop(self) -> None:
        await self._engine.stop()

    async def metrics(self) -> bytes:
        return b""

    @property
    def adapters(self) -> Collection[str]:
        return self._engine.adapters if isinstance(self._engine, AdaptableEngine) else ()

    async def load_adapter(self, name: str, directory: Path) -> None:
        await self._adaptable().load_adapter(name, directory)

    async def unload_adapter(self, name: str) -> None:
        await self._adaptable().unload_adapter(name)

    def _adaptable(self) -> AdaptableEngine:
        if isinstance(self._engine, AdaptableEngine):
            return self._engine
        raise RequestFault.invalid("This engine has no adapters: transformers, vllm and sglang have")

    async def answer(self, call: Call, meter: Meter) -> bytes:
        text: list[str] = []
        last: Piece | None = None
        async with aclosing(self._pieces(call, meter)) as pieces:
            async for last in pieces:
                text.append(last.text)
        if last is None:
            raise RuntimeError("the engine made no piece")
        content = "".join(text)
        choice: dict[str, Any] = {"index": 0, "finish_reason": last.finish_reason, "logprobs": None}
        if call.route is OpenAiRoute.CHAT:
            choice["message"] = {"role": "assistant", "content": content}
        else:
            choice["text"] = content
        return _json(_envelope(call, streamed=False) | {"choices": [choice], "usage": _usage(last)})

    async def stream(self, call: Call, meter: Meter) -> AsyncGenerator[bytes, None]:
        envelope = _envelope(call, streamed=True) | ({"usage": None} if call.include_usage else {})
        last: Piece | None = None
        async with aclosing(self._pieces(call, meter)) as pieces:
            async for piece in pieces:
                if last is None and call.route is OpenAiRoute.CHAT:
                    yield _json(envelope | _choice(delta={"role": "assistant", "content": ""}))
                if piece.text:
                    shown = (
                        {"delta": {"content": piece.text}}
                        if call.route is OpenAiRoute.CHAT
                        else {"text": piece.text}
                    )
                    yield _json(envelope | _choice(**shown))
                last = piece
        if last is None:
            raise RuntimeError("the engine made no piece")
        end: dict[str, Any] = {"delta": {}} if call.route is OpenAiRoute.CHAT else {"text": ""}
        yield _json(envelope | _choice(finish_reason=last.finish_reason, **end))
        if call.include_usage:
            yield _json(envelope | {"choices": [], "usage": _usage(last)})

    async def _pieces(self, call: Call, meter: Meter) -> AsyncGenerator[Piece, None]:
        count = 0
        async with aclosing(self._engine.generate(text_request(call, adapters=self.adapters))) as pieces:
            async for piece in pieces:
                meter.produced(piece.completion_tokens - count)
                count = piece.completion_tokens
                if piece.finish_reason is not None:
                    meter.finished(piece.finish_reason)
                    meter.used(prompt_tokens=piece.prompt_tokens, completion_tokens=count)
                yield piece


def _envelope(call: Call, *, streamed: bool) -> dict[str, Any]:
    chat = call.route is OpenAiRoute.CHAT
    return {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}",
        "object": ("chat.completion" + (".chunk" if streamed else "")) if chat else "text_completion",
        "created": int(time.time()),
        "model": call.model,
    }


def _choice(*, finish_reason: str | None = None, **content: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, **content, "logprobs": None, "finish_reason": finish_reason}]}


def _usage(last: Piece) -> dict[str, int]:
    return {
        "prompt_tokens": last.prompt_tokens,
        "completion_tokens": last.completion_tokens,
        "total_tokens": last.prompt_tokens + last.completion_tokens,
    }


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
