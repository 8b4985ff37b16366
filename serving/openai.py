"""The OpenAI dialect: what a request may say, and what its errors look like.

`read_call` checks what every engine needs; `text_request` checks the rest for engines that make text
themselves. An engine that forwards to a full OpenAI server leaves that to the server.
"""

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

MAX_STOP_STRINGS = 16
MAX_SEED = 2**63 - 1


class OpenAiRoute(StrEnum):
    CHAT = "/v1/chat/completions"
    COMPLETIONS = "/v1/completions"
    EMBEDDINGS = "/v1/embeddings"
    RERANK = "/v1/rerank"
    RESPONSES = "/v1/responses"

    @property
    def api(self) -> str:
        """Its name in `EngineSpec.apis`."""
        return self.name.lower()


class RequestFault(Exception):
    """A request that is answered with an error, in OpenAI's shape."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self.is_overflow = False
        self.document: dict[str, Any] = {
            "error": {"message": message, "type": kind, "param": param, "code": code}
        }

    @classmethod
    def invalid(cls, message: str, *, param: str | None = None, code: str | None = None) -> Self:
        return cls(400, message, param=param, code=code)

    @classmethod
    def no_such_model(cls, model: str) -> Self:
        return cls(404, f"The model {model!r} is not served here", param="model", code="model_not_found")

    @classmethod
    def unavailable(cls, message: str, *, retry_after_seconds: int = 1) -> Self:
        return cls(
            503,
            message,
            kind="service_unavailable",
            code="unavailable",
            retry_after_seconds=retry_after_seconds,
        )

    @classmethod
    def overloaded(cls, message: str, *, retry_after_seconds: int) -> Self:
        return cls(
            429, message, kind="overloaded_error", code="queue_full", retry_after_seconds=retry_after_seconds
        )

    @classmethod
    def overflow(cls) -> Self:
        """Return the refusal upon which the gateway asks another worker."""
        fault = cls(429, "All slots are at work", kind="overloaded_error", code="overflow")
        fault.is_overflow = True
        return fault

    @classmethod
    def internal(cls, message: str) -> Self:
        return cls(500, message, kind="server_error", code="internal_error")

    @classmethod
    def forwarded(cls, status: int, document: dict[str, Any]) -> Self:
        """An error that an upstream server has put into words already."""
        fault = cls(status, "")
        fault.document = document
        return fault


@dataclass(frozen=True, kw_only=True)
class Call:
    """A generation request, checked as far as every engine needs. `body` is the whole of it."""

    route: OpenAiRoute
    body: Mapping[str, Any]
    model: str
    stream: bool
    include_usage: bool


@dataclass(frozen=True)
class Message:
    role: str
    content: str


@dataclass(frozen=True)
class ChatPrompt:
    messages: tuple[Message, ...]


@dataclass(frozen=True)
class TextPrompt:
    text: str


@dataclass(frozen=True)
class TokenPrompt:
    ids: tuple[int, ...]


Prompt = ChatPrompt | TextPrompt | TokenPrompt


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Sampling settings. None means: as the model's own generation settings say."""

    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    seed: int | None
    stop: tuple[str, ...]
    ignore_eos: bool = False
    """Go on to `max_tokens` where the model would end, as vLLM's parameter: benchmarks need equal lengths."""


@dataclass(frozen=True, kw_only=True)
class TextRequest:
    prompt: Prompt
    sampling: Sampling
    adapter: str = ""
    """Name of the LoRA adapter that it asks for; empty: the model as it is."""


def read_call(route: OpenAiRoute, raw: bytes, *, served: Collection[str]) -> Call:
    """The call in `raw`. `served` are the model names that this worker answers to; the first of them is
    taken when the request names none. Raises RequestFault."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise RequestFault.invalid(f"The body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise RequestFault.invalid("The body must be a JSON object")
    model = _typed(body, "model", str, "text") or next(iter(served))
    if model not in served:
        raise RequestFault.no_such_model(model)
    stream = bool(_typed(body, "stream", bool, "true or false"))
    options = _typed(body, "stream_options", dict, "an object")
    if options is not None and not stream:
        raise RequestFault.invalid("stream_options needs stream: true", param="stream_options")
    include_usage = bool(_typed(options or {}, "include_usage", bool, "true or false"))
    return Call(route=route, body=body, model=model, stream=stream, include_usage=include_usage)


# What changes the answer and is not done here is refused; what only labels a request is passed over.
_ONLY = {
    "n": (1, "one answer a request (n = 1)"),
    "best_of": (1, "best_of = 1"),
    "echo": (False, "no echo of the prompt"),
    "logprobs": (False, "no log probabilities"),
    "top_logprobs": (0, "no log probabilities"),
    "presence_penalty": (0, "no presence penalty"),
    "frequency_penalty": (0, "no frequency penalty"),
    "logit_bias": ({}, "no logit bias"),
    "tools": ([], "no tools"),
    "functions": ([], "no functions"),
    "suffix": ("", "no suffix"),
    "response_format": ({"type": "text"}, "plain text"),
    "modalities": (["text"], "text"),
}


def text_request(call: Call, *, adapters: Collection[str] = ()) -> TextRequest:
    """The call as a prompt and sampling; `adapters` may be named in the place of the model.

    Raises RequestFault for what a text engine does not do.
    """
    body = call.body
    for name, (allowed, words) in _ONLY.items():
        value = body.get(name)
        if value is not None and value != allowed:
            raise RequestFault.invalid(
                f"{name} is not supported here: this engine gives {words}",
                param=name,
                code="unsupported_parameter",
            )
    prompt = _chat_prompt(body) if call.route is OpenAiRoute.CHAT else _text_prompt(body)
    max_tokens = _whole(body, "max_tokens", 1, MAX_SEED)
    if call.route is OpenAiRoute.CHAT:
        max_tokens = _whole(body, "max_completion_tokens", 1, MAX_SEED) or max_tokens
    elif max_tokens is None:
        max_tokens = 16  # OpenAI's default for /v1/completions
    return TextRequest(
        prompt=prompt,
        adapter=call.model if call.model in adapters else "",
        sampling=Sampling(
            max_tokens=max_tokens,
            temperature=_number(body, "temperature", 0, 2),
            top_p=_number(body, "top_p", 0, 1, above=True),
            seed=_whole(body, "seed", -MAX_SEED - 1, MAX_SEED),
            stop=_stop(body),
            ignore_eos=bool(_typed(body, "ignore_eos", bool, "true or false")),
        ),
    )


def _typed(body: Mapping[str, Any], name: str, kind: type, words: str) -> Any:
    value = body.get(name)
    if value is not None and type(value) is not kind:
        raise RequestFault.invalid(f"{name} must be {words}", param=name)
    return value


def _whole(body: Mapping[str, Any], name: str, low: int, high: int) -> int | None:
    value: int | None = _typed(body, name, int, "a whole number")
    if value is not None and not low <= value <= high:
        raise RequestFault.invalid(f"{name} must be from {low} to {high}", param=name)
    return value


def _number(
    body: Mapping[str, Any], name: str, low: float, high: float, *, above: bool = False
) -> float | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise RequestFault.invalid(f"{name} must be a number", param=name)
    if not low <= value <= high or (above and value == low):
        words = f"above {low:g} and at most {high:g}" if above else f"from {low:g} to {high:g}"
        raise RequestFault.invalid(f"{name} must be {words}", param=name)
    return float(value)


def _stop(body: Mapping[str, Any]) -> tuple[str, ...]:
    value = body.get("stop")
    stops = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) and stop for stop in stops):
        raise RequestFault.invalid("stop must be text or a list of text, none of it empty", param="stop")
    if len(stops) > MAX_STOP_STRINGS:
        raise RequestFault.invalid(f"stop takes at most {MAX_STOP_STRINGS} strings", param="stop")
    return tuple(stops)


def _chat_prompt(body: Mapping[str, Any]) -> ChatPrompt:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise RequestFault.invalid("messages must be a list with at least one message", param="messages")
    return ChatPrompt(tuple(_message(entry, f"messages[{index}]") for index, entry in enumerate(messages)))


def _message(entry: object, where: str) -> Message:
    if not isinstance(entry, dict):
        raise RequestFault.invalid(f"{where} must be an object", param=where)
    role = entry.get("role")
    if role not in ("system", "developer", "user", "assistant", "tool"):
        raise RequestFault.invalid(
            f"{where}.role must be system, developer, user, assistant or tool", param=f"{where}.role"
        )
    content = entry.get("content")
    if isinstance(content, list):
        content = "".join(_part(part, f"{where}.content[{index}]") for index, part in enumerate(content))
    if not isinstance(content, str):
        raise RequestFault.invalid(
            f"{where}.content must be text or a list of parts", param=f"{where}.content"
        )
    return Message(role, content)


def _part(part: object, where: str) -> str:
    if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
        raise RequestFault.invalid(
            f"{where} must be a part of type text: this engine reads only text", param=where
        )
    text: str = part["text"]
    return text


def _text_prompt(body: Mapping[str, Any]) -> TextPrompt | TokenPrompt:
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return TextPrompt(prompt)
    if isinstance(prompt, list) and prompt and all(type(token) is int and token >= 0 for token in prompt):
        return TokenPrompt(tuple(prompt))
    if isinstance(prompt, list) and prompt and all(isinstance(one, str | list) for one in prompt):
        raise RequestFault.invalid("This engine takes one prompt a request", param="prompt")
    raise RequestFault.invalid("prompt must be text or a list of token ids", param="prompt")
