"""Throughput under a latency bound, batched against unbatched, and what batching costs at low load."""

import asyncio
import random
import time

from perf.required import RequiredFigure, at_most
from perf.serving.load import MeasuredLoad, measure, request
from perf.serving.running import service

APP = """
import numpy as np
from slipway import serve

WIDTH, LAYERS = 1_024, 6

class Network(serve.GpuModel):
    def load(self, files):
        random = np.random.default_rng(1)
        self.weights = [random.standard_normal((WIDTH, WIDTH), np.float32) / 32 for _ in range(LAYERS)]

    def infer(self, rows):
        values = np.stack(rows)
        for weights in self.weights:
            values = np.maximum(values @ weights, 0)
        return list(values[:, :16])

    @serve.batched(max_size=32, max_wait_ms=2)
    def batched(self, rows):
        return self.infer(rows)

    @serve.batched(latency_ms=BOUND)
    def bounded(self, rows):
        return self.infer(rows)

    def alone(self, row):
        return self.infer([row])[0]

app = serve.App(processes=24)

@app.post("/{method}")
def call(method: str, body: bytes):
    return serve.get(Network).run(method, np.frombuffer(body, np.float32)).tobytes()
"""
BOUND_MS = 60.0
SECONDS = 3.0
METHODS = ("alone", "batched", "bounded")
BODY = bytes(4 * 1_024)


LOW_LOAD_SECONDS, LOW_LOAD_SHARE = 40.0, 0.15
"""Requests come at random moments, at such a share of the rate that unbatched calls reach."""


def _measured(port: int, pid: int, method: str, clients: int) -> MeasuredLoad:
    one = request(f"/{method}", BODY)
    return asyncio.run(measure(port, [one] * clients, seconds=SECONDS, pid=pid))


async def _low_load(port: int, rate: float, *, is_alone: bool) -> dict[str, list[float]]:
    """Milliseconds by method. Requests for the methods alternate, so that all of them see the same machine.
    `is_alone`: one client, which waits for its answer; else they come by a Poisson process."""
    chance = random.Random(5)
    seen: dict[str, list[float]] = {method: [] for method in METHODS}
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(method: str) -> None:
        reader, writer = idle.pop() if idle else await asyncio.open_connection("127.0.0.1", port)
        began = time.perf_counter()
        writer.write(request(f"/{method}", BODY))
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert head.startswith(b"http/1.1 200"), head
        await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r")[0]))
        seen[method].append((time.perf_counter() - began) * 1_000)
        idle.append((reader, writer))

    asking: set[asyncio.Task[None]] = set()
    end = time.monotonic() + LOW_LOAD_SECONDS
    while time.monotonic() < end:
        for method in chance.sample(METHODS, len(METHODS)):
            if is_alone:
                await ask(method)
            else:
                await asyncio.sleep(chance.expovariate(rate))
                task = asyncio.create_task(ask(method))
                asking.add(task)
                task.add_done_callback(asking.discard)
    await asyncio.gather(*asking)
    for _, writer in idle:
        writer.close()
    return seen


def _share(seen: list[float], share: float) -> float:
    return sorted(seen)[int(share * len(seen))]


def rows(_: str) -> list[RequiredFigure]:
    told: list[RequiredFigure] = []
    best = dict.fromkeys(METHODS, 0.0)
    with service(APP.replace("BOUND", str(BOUND_MS))) as running:
        for method in METHODS:
            for clients in (1, 4, 12, 24):
                seen = _measured(running.port, running.pid, method, clients)
                assert set(seen.statuses) == {200}, seen.statuses
                if seen.milliseconds(0.99) <= BOUND_MS:
                    best[method] = max(best[method], seen.rate)
                figures = seen.figures
                told.append(RequiredFigure(f"{method}, {clients} clients", figures))
        for method in METHODS[1:]:
            gain = best[method] / best["alone"] if best["alone"] else float("inf")
            told.append(
                RequiredFigure(f"{method}: throughput within p99 {BOUND_MS:g} ms / unbatched", f"{gain:.2f}")
            )
        rate = LOW_LOAD_SHARE * max(best["alone"], 20.0)
        for name, is_alone in (("a lone client", True), (f"{rate:.0f} requests/s at random", False)):
            low = asyncio.run(_low_load(running.port, rate, is_alone=is_alone))
            for method, seen_by in low.items():
                p50, p99 = _share(seen_by, 0.5), _share(seen_by, 0.99)
                figures = f"p50 {p50:.1f} ms, p99 {p99:.1f} ms of {len(seen_by)}"
                told.append(RequiredFigure(f"{method}, {name}", figures))
                if method != "alone":
                    ratio = p99 / _share(low["alone"], 0.99)
                    told.append(at_most(f"{method}, {name}: p99 / unbatched", ratio, 1.1))
    return told
