"""The OpenAI dialect as a client speaks it: bodies that ask, streams that answer."""

import json
from typing import Any

from benchmarks.load.records import RequestRecord
from benchmarks.load.scenario import LoadScenario


def body_of(scenario: LoadScenario, model: str, prompt: str, output_tokens: int) -> bytes:
    """A request for exactly so many tokens, counted by the server."""
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": output_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": scenario.streaming,
    }
    if scenario.streaming:
        body["stream_options"] = {"include_usage": True}
    if scenario.api == "chat":
        body["messages"] = [{"role": "user", "content": prompt}]
    else:
        body["prompt"] = prompt
    return json.dumps(body, separators=(",", ":")).encode()


def path_of(scenario: LoadScenario) -> str:
    return "/v1/chat/completions" if scenario.api == "chat" else "/v1/completions"


class StreamedAnswer:
    """Server-sent events of one answer, written into its record as they come."""

    def __init__(self, record: RequestRecord) -> None:
        self._record = record
        self._rest = b""
        self._is_done = False

    def feed(self, data: bytes, at: float) -> None:
        """Raises ValueError for what is no event of this dialect."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if not line.startswith(b"data:"):
                continue
            payload = line[5:].strip()
            if payload == b"[DONE]":
                self._is_done = True
            elif payload:
                self._event(json.loads(payload), at)

    def end(self) -> None:
        """Raises EOFError when the stream broke off."""
        if not self._is_done:
            raise EOFError

    def _event(self, event: Any, at: float) -> None:
        record = self._record
        if "error" in event:
            raise ValueError(str(event["error"])[:200])
        usage = event.get("usage")
        if any(_has_token(choice) for choice in event.get("choices", ())):
            if record.first is None:
                record.first = at
                record.first_tokens = usage.get("completion_tokens") if usage else None
            elif record.last is not None:
                record.gaps_ms.append(round((at - record.last) * 1000, 3))
            record.last = at
            record.chunks += 1
        if usage:
            record.input_tokens = usage.get("prompt_tokens")
            record.output_tokens = usage.get("completion_tokens")


def plain_usage(body: bytes) -> tuple[int | None, int | None]:
    """Tokens of prompt and answer as a whole answer tells them. Raises ValueError."""
    usage = json.loads(body).get("usage") or {}
    return usage.get("prompt_tokens"), usage.get("completion_tokens")


def _has_token(choice: Any) -> bool:
    """Return whether the choice has a token: a role, or an empty text, is none."""
    delta = choice.get("delta")
    if delta is None:
        return bool(choice.get("text"))
    return bool(delta.get("content") or delta.get("reasoning_content"))
