"""A server that streams tokens at scripted times, and keeps what each answer's timing truly was."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_FINISH = b"0\r\n\r\n"


@dataclass
class Script:
    ttft: float = 0.02
    tpot: float = 0.005
    tokens_per_chunk: int = 1
    role_chunk: bool = False
    """A first event of a chat that has no token yet."""
    slots: int = 10_000
    stall_after: int = 0
    """So many chunks, then nothing; 0: never."""
    refuse_every: int = 0
    """Each so many-th request is answered 503; 0: none."""
    slower_by: float = 0.0
    """Each request's first token takes so much longer than the one before."""
    ends_early: bool = False
    """Half of the tokens asked for, as without ignore_eos."""
    tokens_per_word: float = 1.25
    counts: bool = True
    """Whether usage is told."""
    caches_prefix: float | None = None
    """Share of prompt tokens that a prefix cache says it had."""


@dataclass
class ScriptedServer:
    script: Script
    url: str = ""
    asked: int = 0
    bodies: list[dict[str, object]] = field(default_factory=list)
    chosen_by: list[str] = field(default_factory=list)
    """Who each request says has chosen the version."""
    looked_up: int = 0
    most_in_flight: int = 0
    truths: list[tuple[float, float]] = field(default_factory=list)
    """TTFT from its arrival and TPOT of each answer, in milliseconds, by when they were truly written."""
    _in_flight: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *fields = head.decode().split("\r\n")
                length = next(
                    (int(one[15:]) for one in fields if one.lower().startswith("content-length:")), 0
                )
                body = await reader.readexactly(length)
                if line.startswith("GET"):
                    self._write(writer, 200, self._metrics())
                else:
                    told = dict(one.lower().split(": ", 1) for one in fields if ": " in one)
                    self.chosen_by.append(told.get("x-slipway-chosen-by", "gateway"))
                    await self._answer(writer, json.loads(body), arrived=asyncio.get_running_loop().time())
                await writer.drain()
        except (EOFError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, body: dict, *, arrived: float) -> None:
        script, loop = self.script, asyncio.get_running_loop()
        self.asked += 1
        self.bodies.append(body)
        number = self.asked
        if script.refuse_every and number % script.refuse_every == 0:
            self._write(writer, 503, b'{"error": "busy"}')
            return
        prompt = body.get("prompt") or body["messages"][0]["content"]
        prompt_tokens = round(len(prompt.split()) * script.tokens_per_word) + 1
        self.looked_up += prompt_tokens
        tokens = body["max_tokens"] // 2 if script.ends_early else body["max_tokens"]
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": tokens}
        if not body.get("stream"):
            self._write(writer, 200, json.dumps({"usage": usage}).encode())
            return
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        async with self._slots():
            begin = loop.time() if script.slots < 10_000 else arrived
            at = begin + script.ttft + script.slower_by * number
            if script.role_chunk:
                self._event(writer, _said({"delta": {"role": "assistant", "content": ""}}))
            sent, first = 0, 0.0
            while sent < tokens:
                count = min(script.tokens_per_chunk, tokens - sent)
                await asyncio.sleep(max(0.0, at - loop.time()))
                text = "x " * count
                shown = {"delta": {"content": text}} if "messages" in body else {"text": text}
                self._event(writer, _said(shown))
                sent, last, first = sent + count, loop.time(), first or loop.time()
                at += script.tpot * min(script.tokens_per_chunk, max(1, tokens - sent))
                if script.stall_after and sent >= script.stall_after * script.tokens_per_chunk:
                    await asyncio.sleep(3600)
        self._in_flight -= 1
        later = max(1, tokens - script.tokens_per_chunk)
        self.truths.append(((first - arrived) * 1000, (last - first) * 1000 / later))
        if script.counts:
            self._event(writer, {**_said(shown), "choices": [], "usage": usage})
        data = b"data: [DONE]\n\n"
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n" + _FINISH)

    def _slots(self) -> asyncio.Semaphore:
        if not hasattr(self, "_semaphore"):
            self._semaphore = asyncio.Semaphore(self.script.slots)
        return self._semaphore

    def _metrics(self) -> bytes:
        if self.script.caches_prefix is None:
            return b""
        hits = self.looked_up * self.script.caches_prefix
        lines = f"vllm:prefix_cache_queries_total {self.looked_up}\nvllm:prefix_cache_hits_total {hits}\n"
        return lines.encode()

    @staticmethod
    def _event(writer: asyncio.StreamWriter, event: dict) -> None:
        data = b"data: " + json.dumps(event).encode() + b"\n\n"
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    @staticmethod
    def _write(
        writer: asyncio.StreamWriter, status: int, body: bytes, kind: str = "application/json"
    ) -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)


def _said(choice: dict) -> dict:
    kind = "chat.completion.chunk" if "delta" in choice else "text_completion"
    return {"object": kind, "choices": [{"index": 0, **choice}]}


@contextmanager
def scripted_server(script: Script | None = None) -> Iterator[ScriptedServer]:
    found = ScriptedServer(script or Script())
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(found.serve, "127.0.0.1", 0, backlog=1024))
    found.url = "http://{}:{}".format(*server.sockets[0].getsockname()[:2])
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(lambda: [one.cancel() for one in asyncio.all_tasks(loop)])
        loop.call_soon_threadsafe(loop.call_later, 0.05, loop.stop)
        thread.join(timeout=5)
        loop.close()
