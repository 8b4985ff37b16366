"""A worker that costs almost nothing: `python -m perf.upstream NAME [PORT]` prints its port and serves.

`/v1` answers NAME; `/v1/status/503` that status; `/v1/stream?chunks=20&every_ms=100` that many chunks;
`/v1/tokens?prompt=9&completion=3` an answer of so many tokens, with `stream=1` as events, one every
`every_ms`, and without a count of them with `count=0`; `/v1/chat/completions` forty such events within 2 s;
`/v1/slow?ms=500` after a while, having said that work on it has begun; `/v1/wait?ms=500` the same without
saying so, and both at once when `/set?go=1` was said; `/v1/cut?ms=100` breaks off midway. `/healthz` answers
what `/set?health=503` last said, and everything else 500 once `/set?broken=1` was said. `/served` answers how
many requests it has had, those two and itself left out.
"""

import asyncio
import signal
import subprocess
import sys
from contextlib import suppress
from urllib.parse import parse_qsl, urlsplit
from urllib.request import urlopen


class UpstreamWorker:
    def __init__(self, name: str) -> None:
        self.name = name
        self.health = 200
        self.broken = False
        self.served = 0
        self.go = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self.answer_one(reader, writer):
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        request_line, *fields = head.split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)
        }
        await reader.readexactly(int(headers.get("content-length", 0)))
        url = urlsplit(request_line.split()[1])
        query = {key: int(value) for key, value in parse_qsl(url.query)}
        first, _, rest = url.path.removeprefix("/v1").lstrip("/").partition("/")
        if first == "served":
            self.whole(writer, 200, str(self.served))
            return True
        self.served += first not in ("set", "healthz")
        if first == "set":
            self.health = query.get("health", self.health)
            self.broken = bool(query.get("broken", self.broken))
            if query.get("go"):
                self.go.set()
            self.whole(writer, 200)
        elif first == "healthz":
            self.whole(writer, self.health)
        elif self.broken:
            self.whole(writer, 500)
        elif first == "status":
            self.whole(writer, int(rest))
        elif first == "stream":
            await self.stream(writer, query.get("chunks", 20), query.get("every_ms", 100))
        elif first == "tokens":
            await self.tokens(writer, query)
        elif first == "chat":
            await self.tokens(writer, {"stream": 1, "completion": 40, "every_ms": 50})
        elif first == "slow":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await self.work(query.get("ms", 500))
            self.whole(writer, 200)
        elif first == "wait":
            await self.work(query.get("ms", 500))
            self.whole(writer, 200)
        elif first == "cut":
            self.begin(writer)
            writer.write(b"2\r\nab\r\n")
            await asyncio.sleep(query.get("ms", 100) / 1000)
            return False
        else:
            self.whole(writer, 200)
        return True

    async def work(self, milliseconds: int) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.go.wait(), milliseconds / 1000)

    def whole(self, writer: asyncio.StreamWriter, status: int, text: str = "") -> None:
        body = (text or self.name).encode()
        writer.write(b"HTTP/1.1 %d .\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body))

    async def tokens(self, writer: asyncio.StreamWriter, query: dict[str, int]) -> None:
        prompt, completion = query.get("prompt", 1), query.get("completion", 1)
        usage = f'"usage": {{"prompt_tokens": {prompt}, "completion_tokens": {completion}}}'
        if not query.get("stream"):
            body = b'{"choices": [{"text": "\\"completion_tokens\\": 9"}], %s}' % usage.encode()
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            writer.write(head % len(body) + body)
            return
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        events = ['data: {"choices": [{"text": "a"}]}\n\n'] * completion
        if query.get("count", 1):
            events.append(f'data: {{"choices": [], {usage}}}\n\n')
        for event in [*events, "data: [DONE]\n\n"]:
            writer.write(b"%x\r\n%s\r\n" % (len(event), event.encode()))
            await writer.drain()
            await asyncio.sleep(query.get("every_ms", 0) / 1000)
        writer.write(b"0\r\n\r\n")

    def begin(self, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")

    async def stream(self, writer: asyncio.StreamWriter, chunks: int, every_ms: int) -> None:
        self.begin(writer)
        for _ in range(chunks):
            writer.write(b"%x\r\n%s\r\n" % (len(self.name), self.name.encode()))
            await writer.drain()
            await asyncio.sleep(every_ms / 1000)
        writer.write(b"0\r\n\r\n")


async def main(name: str, port: int) -> None:
    server = await asyncio.start_server(UpstreamWorker(name).serve, "127.0.0.1", port, backlog=1024)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.close)
    print(server.sockets[0].getsockname()[1], flush=True)
    try:
        await server.serve_forever()
    except asyncio.CancelledError:
        return


class Upstream:
    """The worker as a process of its own."""

    def __init__(self, name: str, port: int = 0) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-m", "perf.upstream", name, str(port)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def get(self, path: str) -> bytes:
        """Return the answer to a request past the gateway."""
        with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return bytes(answer.read())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0))
