"""Answers of a server of OpenAI's API on their way through a worker: what is counted, and refusals."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from serving.engines.base import EngineError, Meter
from serving.http_client import HttpConnection
from serving.openai import RequestFault


async def whole_body(connection: HttpConnection) -> bytes:
    return b"".join([part async for part in connection.body()])


async def sse_data(connection: HttpConnection) -> AsyncGenerator[bytes, None]:
    """The `data:` of server-sent events; vLLM puts each on one line."""
    rest = b""
    async with aclosing(connection.body()) as parts:
        async for part in parts:
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                if line.startswith(b"data:"):
                    yield line[5:].strip()


def metered_chunk(payload: bytes, meter: Meter) -> bool:
    """Whether the chunk is more than the usage that was asked for the meter's sake."""
    try:
        chunk = json.loads(payload)
        if chunk.get("error"):
            raise RequestFault.forwarded(500, {"error": chunk["error"]})
        meter_usage(chunk.get("usage"), meter)
        choices = chunk.get("choices")
        if any((choice.get("delta") or {}).get("content") or choice.get("text") for choice in choices):
            meter.produced(1)
        meter_finish(chunk, meter)
        return bool(choices)
    except (ValueError, AttributeError, TypeError):
        raise EngineError("the server sent a chunk that is not of OpenAI's shape") from None


def metered_response(payload: bytes, meter: Meter) -> bool:
    """Whether this event of the Responses API is its last."""
    try:
        event = json.loads(payload)
        kind = str(event["type"])
        if kind == "response.output_text.delta":
            meter.produced(1)
        response = event.get("response") or {}
        meter_usage(response.get("usage"), meter)
        meter_finish(response, meter)
    except (ValueError, AttributeError, TypeError, KeyError):
        raise EngineError("the server sent an event that is not of OpenAI's shape") from None
    return kind in ("response.completed", "response.failed", "response.incomplete")


def meter_finish(answer: Mapping[str, Any], meter: Meter) -> None:
    """Report why the choices of an answer, or of a chunk of it, ended; a response may be incomplete."""
    for choice in answer.get("choices") or ():
        if reason := choice.get("finish_reason"):
            meter.finished(str(reason))
    if (answer.get("incomplete_details") or {}).get("reason") == "max_output_tokens":
        meter.finished("length")


def meter_usage(usage: Mapping[str, Any] | None, meter: Meter) -> None:
    """Reranking tells the total alone."""
    if usage:
        read = usage.get("prompt_tokens") or usage.get("input_tokens") or usage.get("total_tokens") or 0
        written = usage.get("completion_tokens") or usage.get("output_tokens") or 0
        meter.used(prompt_tokens=int(read), completion_tokens=int(written))


def refusal_of(status: int, answer: bytes) -> RequestFault:
    try:
        document = json.loads(answer)
    except ValueError:
        document = None
    if isinstance(document, dict) and "error" in document:
        return RequestFault.forwarded(status, document)
    if isinstance(document, dict) and document.get("object") == "error":  # vLLM before 0.10
        return RequestFault.forwarded(status, {"error": document})
    return RequestFault(status, f"the server answered {status}: {answer[:300].decode(errors='replace')}")
