"""Throughput under a latency bound, batched against unbatched, and what batching costs a lone client."""

import asyncio

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


def _measured(port: int, pid: int, method: str, clients: int) -> MeasuredLoad:
    one = request(f"/{method}", bytes(4 * 1_024))
    return asyncio.run(measure(port, [one] * clients, seconds=SECONDS, pid=pid))


def rows(_: str) -> list[RequiredFigure]:
    told: list[RequiredFigure] = []
    best = dict.fromkeys(METHODS, 0.0)
    lone: dict[str, MeasuredLoad] = {}
    with service(APP.replace("BOUND", str(BOUND_MS))) as running:
        for method in METHODS:
            for clients in (1, 4, 12, 24):
                seen = _measured(running.port, running.pid, method, clients)
                assert set(seen.statuses) == {200}, seen.statuses
                if clients == 1:
                    lone[method] = seen
                if seen.milliseconds(0.99) <= BOUND_MS:
                    best[method] = max(best[method], seen.rate)
                figures = seen.figures
                told.append(RequiredFigure(f"{method}, {clients} clients", figures))
    for method in METHODS[1:]:
        gain = best[method] / best["alone"] if best["alone"] else float("inf")
        told.append(
            RequiredFigure(f"{method}: throughput within p99 {BOUND_MS:g} ms / unbatched", f"{gain:.2f}")
        )
        ratio = lone[method].milliseconds(0.99) / lone["alone"].milliseconds(0.99)
        told.append(at_most(f"{method}: p99 of a lone client / unbatched", ratio, 1.25))
    return told
