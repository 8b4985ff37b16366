"""The answer of a worker as server-sent events, while it comes: for a person who tries a version out."""

import codecs
import json
import time
from asyncio import timeout
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
from django.utils.translation import gettext as _

from common.api.json import dumps
from common.characters import storable
from common.draining import refusing
from serving.protocol import CHOSEN_BY_HEADER

WITHIN_SECONDS = 300.0
SILENT_SECONDS = 120.0
"""Between two chunks; the first one waits for a free slot, too."""
MOST_CHARACTERS = 200_000
"""Of an answer that comes in one document."""
MOST_BYTES = 8 * 2**20
"""Of what a worker sends: some 250 for each token of a stream."""


@dataclass
class AnswerText:
    """Makes text to read of an answer's bytes: of OpenAI's events and documents what the model said."""

    content_type: str
    completion_tokens: int | None = None
    _rest: str = ""
    _bytes: int = 0
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    def feed(self, chunk: bytes) -> str:
        self._bytes += len(chunk)
        if "event-stream" in self.content_type:
            *lines, self._rest = (self._rest + self._decoder.decode(chunk)).split("\n")
            return "".join(map(self._event, lines))
        if "json" in self.content_type:
            self._rest += self._decoder.decode(chunk)
            return ""
        return self._decoder.decode(chunk) if self._is_text else ""

    def end(self) -> str:
        """Return the text that only the whole answer tells."""
        if "event-stream" in self.content_type:
            return self._event(self._rest)
        if "json" in self.content_type:
            return self._document(self._rest, otherwise=self._rest)
        if self._is_text:
            return ""
        return _("%(kind)s, %(bytes)s bytes") % {"kind": self.content_type, "bytes": f"{self._bytes:,}"}

    @property
    def _is_text(self) -> bool:
        return not self.content_type or self.content_type.startswith("text/")

    def _event(self, line: str) -> str:
        if not line.startswith("data:") or (data := line.removeprefix("data:").strip()) == "[DONE]":
            return ""
        return self._document(data, otherwise=f"{data}\n")

    def _document(self, text: str, *, otherwise: str) -> str:
        try:
            told = json.loads(text)
        except ValueError:
            return otherwise
        if not isinstance(told, dict) or not isinstance(told.get("choices"), list):
            return json.dumps(told, indent=2, ensure_ascii=False) if otherwise == text else otherwise
        if isinstance(usage := told.get("usage"), dict):
            self.completion_tokens = usage.get("completion_tokens")
        return "".join(_said(choice) for choice in told["choices"][:1])


def _said(choice: Any) -> str:
    if not isinstance(choice, Mapping):
        return ""
    message = choice.get("delta") or choice.get("message") or {}
    parts = (message.get("reasoning_content"), message.get("content"), choice.get("text"))
    return "".join(part for part in parts if isinstance(part, str))


async def answer_events(url: str, *, method: str, body: Mapping[str, Any]) -> AsyncGenerator[bytes]:
    """Ask a worker, and yield `answer`, `text` as it comes, and `end`, each with the milliseconds since.

    The request counts as chosen by a client: no release is judged by it. When nobody reads on, the worker's
    connection is closed.
    """
    began = time.monotonic()
    told = AnswerText("")
    problem = ""

    def event(name: str, **data: Any) -> bytes:
        data["milliseconds"] = round(1000 * (time.monotonic() - began), 1)
        return b"event: %s\ndata: %s\n\n" % (name.encode(), dumps(data))

    try:
        async with (
            timeout(WITHIN_SECONDS),
            httpx2.AsyncClient(timeout=httpx2.Timeout(SILENT_SECONDS, connect=5), trust_env=False) as client,
            client.stream(
                method, url, json=body if method == "POST" else None, headers={CHOSEN_BY_HEADER: "client"}
            ) as answer,
        ):
            told.content_type = answer.headers.get("content-type", "").partition(";")[0].lower()
            yield event("answer", status=answer.status_code)
            length = 0
            async for chunk in answer.aiter_bytes():
                if text := told.feed(chunk):
                    yield event("text", text=storable(text))
                length += len(chunk)
                if length > MOST_BYTES or refusing.is_set():
                    problem = _("The rest of the answer is not shown.")
                    break
            if text := told.end():
                yield event("text", text=storable(text[:MOST_CHARACTERS]))
    except httpx2.HTTPError as error:
        words = _("The worker cannot be reached from here: %(error)s")
        problem = words % {"error": str(error) or type(error).__name__}
    except TimeoutError:
        problem = _("The answer took longer than %(seconds)s s.") % {"seconds": f"{WITHIN_SECONDS:g}"}
    yield event("end", problem=problem, completion_tokens=told.completion_tokens)
