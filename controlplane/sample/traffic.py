"""`python -m controlplane.sample.traffic --url URL --rps N --seconds N|forever`: steady light load.

Completions and chats, streamed and whole, at random moments with a steady mean. Waits for a gateway that is
not up or has no route yet. Says one line every few seconds: what was answered, by which version, how fast.
"""

import argparse
import asyncio
import json
import math
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

QUESTIONS = (
    "What does json.dumps do?",
    "What is a generator?",
    "Explain the import statement.",
    "What does textwrap.dedent do?",
    "Tell me about the with statement.",
    "What is a module?",
    "What does os.path.join do?",
    "Explain heapq.",
)
BEGINNINGS = (
    "This module provides",
    "Return a new",
    "If the file",
    "The default value is",
    "A class that",
    "Raised when",
)
CHAT_SHARE, STREAM_SHARE = 0.6, 0.5
MAX_IN_FLIGHT = 64
TIMEOUT_SECONDS = 30.0
Tell = Callable[[str], None]


@dataclass(frozen=True)
class SampleAnswer:
    """The outcome of one request. `fault` is empty when it was answered in whole."""

    version: str
    fault: str
    seconds: float
    first_seconds: float | None = None


@dataclass
class TrafficTally:
    """Answers so far. `skipped` were not sent because too many were still under way."""

    ok: int = 0
    skipped: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    first_seconds: list[float] = field(default_factory=list)

    def add(self, answer: SampleAnswer) -> None:
        if answer.fault:
            self.faults[answer.fault] += 1
        else:
            self.ok += 1
            self.seconds.append(answer.seconds)
            if answer.first_seconds is not None:
                self.first_seconds.append(answer.first_seconds)
        if answer.version:
            self.versions[answer.version] += 1

    @property
    def failed(self) -> int:
        return self.faults.total()

    def document(self, elapsed_seconds: float) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "failed": self.failed,
            "skipped": self.skipped,
            "rps": round((self.ok + self.failed) / max(elapsed_seconds, 1e-9), 2),
            "p50_ms": _percentile_ms(self.seconds, 0.50),
            "p95_ms": _percentile_ms(self.seconds, 0.95),
            "ttft_p50_ms": _percentile_ms(self.first_seconds, 0.50),
            "versions": dict(sorted(self.versions.items())),
            "faults": dict(self.faults.most_common()),
        }

    def line(self, elapsed_seconds: float) -> str:
        told = self.document(elapsed_seconds)
        parts = [f"{told['rps']:.1f}/s", f"{self.ok} ok", f"{self.failed} failed"]
        if self.seconds:
            parts.append(f"p50 {told['p50_ms']:.0f} ms, p95 {told['p95_ms']:.0f} ms")
        if self.first_seconds:
            parts.append(f"first token {told['ttft_p50_ms']:.0f} ms")
        parts += [f"{version} {count}" for version, count in told["versions"].items()]
        parts += [f"({fault}: {count})" for fault, count in told["faults"].items()]
        if self.skipped:
            parts.append(f"{self.skipped} not sent: {MAX_IN_FLIGHT} still under way")
        return "  ".join(parts)


def _percentile_ms(seconds: Sequence[float], share: float) -> float | None:
    if not seconds:
        return None
    return round(sorted(seconds)[max(0, math.ceil(share * len(seconds)) - 1)] * 1_000, 2)


class SampleTraffic:
    """Sends requests to `url` (a service behind the gateway) until told to stop."""

    def __init__(self, url: str, *, rps: float, seed: int, max_tokens: int) -> None:
        self._url = url.rstrip("/")
        self._rps = rps
        self._max_tokens = max_tokens
        self._chance = random.Random(seed)  # noqa: S311 - load is no secret
        self._under_way: set[asyncio.Task[None]] = set()
        self.lately, self.total = TrafficTally(), TrafficTally()

    async def run(self, *, seconds: float, report_every: float, report: Callable[[], None]) -> None:
        """Returns after `seconds` (may be infinite) from the first answer. Cancel it to end it earlier."""
        limits = httpx2.Limits(max_connections=MAX_IN_FLIGHT, max_keepalive_connections=MAX_IN_FLIGHT)
        async with httpx2.AsyncClient(timeout=TIMEOUT_SECONDS, limits=limits, trust_env=False) as client:
            reporting = asyncio.create_task(_every(report_every, report))
            try:
                await self._until_answered(client)
                await self._send(client, seconds)
                await asyncio.gather(*self._under_way)
            finally:
                for task in (reporting, *self._under_way):
                    task.cancel()
                await asyncio.gather(reporting, *self._under_way, return_exceptions=True)

    async def _until_answered(self, client: httpx2.AsyncClient) -> None:
        """Ask until an answer comes: failures before it are the service's coming up, not a fault of it."""
        told = ""
        while (answer := await self._ask(client)).fault:
            if answer.fault != told:
                told = answer.fault
                sys.stderr.write(f"waiting for {self._url}: {told}\n")
            await asyncio.sleep(1.0)
        self._count(answer)

    async def _send(self, client: httpx2.AsyncClient, seconds: float) -> None:
        due = time.monotonic()
        end = due + seconds
        while (due := due + self._chance.expovariate(self._rps)) < end:
            await asyncio.sleep(due - time.monotonic())
            if len(self._under_way) >= MAX_IN_FLIGHT:
                self.lately.skipped += 1
                self.total.skipped += 1
                continue
            task = asyncio.create_task(self._one(client))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _one(self, client: httpx2.AsyncClient) -> None:
        self._count(await self._ask(client))

    def _count(self, answer: SampleAnswer) -> None:
        self.lately.add(answer)
        self.total.add(answer)

    async def _ask(self, client: httpx2.AsyncClient) -> SampleAnswer:
        body: dict[str, Any] = {"max_tokens": self._max_tokens, "seed": self._chance.getrandbits(31)}
        if self._chance.random() < CHAT_SHARE:
            path = "/v1/chat/completions"
            body["messages"] = [{"role": "user", "content": self._chance.choice(QUESTIONS)}]
        else:
            path = "/v1/completions"
            body["prompt"] = self._chance.choice(BEGINNINGS)
        body["stream"] = self._chance.random() < STREAM_SHARE
        began = time.monotonic()
        version, first = "", None
        try:
            async with client.stream("POST", f"{self._url}{path}", json=body) as response:
                version = response.headers.get("x-slipway-version", "")
                if response.status_code != 200:
                    await response.aread()
                    return SampleAnswer(version, f"status {response.status_code}", time.monotonic() - began)
                if body["stream"]:
                    first, whole = await _read_stream(response, began)
                else:
                    whole = "choices" in json.loads(await response.aread())
        except httpx2.HTTPError as error:
            return SampleAnswer(version, _short(error), time.monotonic() - began)
        except ValueError:
            return SampleAnswer(version, "not JSON", time.monotonic() - began)
        return SampleAnswer(version, "" if whole else "broken stream", time.monotonic() - began, first)


async def _read_stream(response: httpx2.Response, began: float) -> tuple[float | None, bool]:
    """Seconds to the first event, and whether the stream ended as it should."""
    first: float | None = None
    last = ""
    async for line in response.aiter_lines():
        if line:
            first = first or time.monotonic() - began
            last = line
    return first, last == "data: [DONE]"


def _short(error: httpx2.HTTPError) -> str:
    return "no connection" if isinstance(error, httpx2.ConnectError) else type(error).__name__


async def _every(seconds: float, report: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(seconds)
        report()


async def play(
    options: argparse.Namespace, tell: Tell, kind: type[SampleTraffic] = SampleTraffic
) -> TrafficTally:
    """The load that the command line asks for; ends early on SIGTERM or SIGINT."""
    traffic = kind(options.url, rps=options.rps, seed=options.seed, max_tokens=options.max_tokens)
    began = told = time.monotonic()

    def say(tally: TrafficTally, since: float, label: str) -> None:
        elapsed = time.monotonic() - since
        stamp = time.strftime("%H:%M:%S")
        if options.json:
            tell(json.dumps({"at": stamp, "what": label, **tally.document(elapsed)}))
        else:
            tell(f"{stamp}  {'' if label == 'lately' else f'{label}: '}{tally.line(elapsed)}")

    def report() -> None:
        nonlocal told
        if traffic.lately.ok or traffic.lately.failed:
            say(traffic.lately, told, "lately")
        traffic.lately = TrafficTally()
        told = time.monotonic()

    running = asyncio.create_task(
        traffic.run(seconds=options.seconds, report_every=options.report_every, report=report)
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    watch = asyncio.create_task(until_orphaned(running.cancel)) if options.exit_with_parent else None
    await asyncio.gather(running, return_exceptions=True)
    if watch is not None:
        watch.cancel()
    if not running.cancelled() and (error := running.exception()):
        raise error
    say(traffic.total, began, "total")
    return traffic.total


async def until_orphaned(end: Callable[[], object]) -> None:
    """Call `end` when the starting process is gone."""
    parent = os.getppid()
    while os.getppid() == parent:
        await asyncio.sleep(0.5)
    end()


def main(arguments: Sequence[str], kind: type[SampleTraffic] = SampleTraffic) -> int:
    parser = argparse.ArgumentParser(prog="python -m controlplane.sample.traffic", description=__doc__)
    parser.add_argument("--url", required=True, help="the service behind the gateway")
    parser.add_argument("--rps", type=_positive, default=8.0, help="mean requests a second (default: 8)")
    parser.add_argument("--seconds", type=_seconds, default=math.inf, help="a number or forever (default)")
    parser.add_argument("--max-tokens", type=int, default=24, help="of every answer (default: 24)")
    parser.add_argument("--report-every", type=_positive, default=5.0, help="seconds (default: 5)")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the random moments and questions (default: 1)"
    )
    parser.add_argument(
        "--exit-with-parent", action="store_true", help="end when the starting process is gone"
    )
    parser.add_argument("--json", action="store_true", help="lines of JSON instead of words")
    options = parser.parse_args(arguments)
    if not options.url.startswith(("http://", "https://")):
        parser.error("--url must start with http:// or https://")
    asyncio.run(play(options, _tell, kind))
    return 0


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value <= 10_000:
        raise argparse.ArgumentTypeError("must be above 0 and at most 10000")
    return value


def _seconds(text: str) -> float:
    return math.inf if text == "forever" else _positive(text)


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
