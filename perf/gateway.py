"""What the gateway costs and loses: `python -m perf.gateway [--changes 100]` prints a table.

A real Envoy with two workers a side on this machine, under short requests and streams of two seconds. What is
required is a count, own CPU, or a ratio to something of the same run: to the same requests straight at the
worker, taken in turns, or to the same call beside no other service. Exits with 1 when one does not hold.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from common.fence import Fence
from gateway.routes import RouteSpec, RouteTarget
from perf.envoy_stack import CANARY, STABLE, EnvoyStack
from perf.load import LoadClient, LoopingClients
from perf.required import RequiredFigure, at_most, report

SHORT, STREAM = "/chat/v1", "/chat/v1/stream?chunks=20&every_ms=100"
SLOWER = 10.0
"""A short request through the gateway beside the same straight at a worker that does nothing, medians."""
ENVOY_CPU = 6.0
"""Envoy's own CPU for a request beside that of a worker in Python, which does nothing."""
BESIDE_OTHERS = 8.0
"""Own CPU of a call beside 40 other services, to that beside none: files are written whole."""


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(round(share * len(ordered)), len(ordered) - 1)]


def spread(milliseconds: Sequence[float]) -> str:
    p50, p95 = (percentile(milliseconds, share) for share in (0.5, 0.95))
    return f"p50 {p50:.2f} ms, p95 {p95:.2f} ms, max {max(milliseconds):.2f} ms"


async def first_on(side: str, load: LoopingClients, *, after: float) -> float:
    """When a short request that was sent later than `after` was first answered by `side`."""
    looked_at = max(0, len(load.answers) - 500)
    while True:
        while looked_at < len(load.answers):
            path, answer = load.answers[looked_at]
            looked_at += 1
            if path == SHORT and answer.version == side and answer.sent_at >= after:
                return answer.ended_at
        await asyncio.sleep(0.001)


async def weight_changes(stack: EnvoyStack, changes: int) -> list[RequiredFigure]:
    load = LoopingClients(stack.layout.port)
    load.add(SHORT, clients=8, pause_ms=5)
    load.add(STREAM, clients=20)
    asked, returned, arrivals = [], [], []
    for change in range(changes):
        percent = 0 if change % 2 else 100
        side, other = (CANARY, STABLE) if percent else (STABLE, CANARY)
        asked.append(time.perf_counter())
        await asyncio.to_thread(stack.reweigh, percent, fence=Fence(1, change + 2))
        returned.append((time.perf_counter(), other.version))
        arrivals.append((await first_on(side.version, load, after=asked[-1]) - asked[-1]) * 1000)
        await asyncio.sleep(max(0.0, 0.2 - (time.perf_counter() - asked[-1])))
    asked.append(time.perf_counter())
    await load.finish()
    short_ones = [answer for path, answer in load.answers if path == SHORT]
    late = sum(
        answer.version == other and done < answer.sent_at < following
        for (done, other), following in zip(returned, asked[1:], strict=True)
        for answer in short_ones
    )
    streams = sum(path == STREAM for path, _ in load.answers)
    short = statistics.median(answer.milliseconds for answer in short_ones)
    return [
        RequiredFigure("weight changes, 0 % <-> 100 %", str(changes)),
        RequiredFigure("requests meanwhile", f"{len(load.answers)}, {streams} of them streams of 2 s"),
        at_most("requests lost", len(load.failures), 0),
        at_most("requests to the old side, sent after the change returned", late, 0),
        RequiredFigure(
            "first answer from the new side after",
            f"{spread(arrivals)}; median {statistics.median(arrivals) / short:.1f} short requests",
        ),
    ]


async def overhead(stack: EnvoyStack, requests: int) -> list[RequiredFigure]:
    worker = stack.workers[STABLE.name][0]
    stack.reweigh(0, fence=Fence(2, 1))
    timings: dict[str, list[float]] = {"direct": [], "gateway": []}
    clients = {"direct": (LoadClient(worker.port), "/v1"), "gateway": (LoadClient(stack.layout.port), SHORT)}
    assert stack.process is not None
    envoy = psutil.Process(stack.process.pid)
    workers = [psutil.Process(one.process.pid) for one in stack.workers[STABLE.name]]
    began = (cpu_of(envoy), sum(map(cpu_of, workers)))
    for _ in range(requests // 50):
        for name, (client, path) in clients.items():
            timings[name] += [(await client.get(path)).milliseconds for _ in range(50)]
    used = cpu_of(envoy) - began[0], sum(map(cpu_of, workers)) - began[1]
    for client, _ in clients.values():
        client.close()
    sent = len(timings["gateway"])
    per_request, of_worker = used[0] / sent, used[1] / (2 * sent)
    ratio = statistics.median(timings["gateway"]) / statistics.median(timings["direct"])
    return [
        RequiredFigure("one connection, directly to a worker", spread(timings["direct"])),
        RequiredFigure("one connection, through the gateway", spread(timings["gateway"])),
        at_most("through the gateway / directly, medians", ratio, SLOWER),
        RequiredFigure("Envoy's own CPU per request", f"{per_request * 1e6:.0f} us"),
        at_most("Envoy's own CPU / the worker's, per request", per_request / of_worker, ENVOY_CPU),
    ]


def cpu_of(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def own_cpu(call: Callable[[], object], times: int) -> float:
    """Median of the seconds of CPU that this process uses for the call."""
    taken = []
    for _ in range(times):
        began = time.process_time()
        call()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def calls(stack: EnvoyStack, services: int) -> list[RequiredFigure]:
    gateway, turns = stack.gateway, iter(range(1, 1000))
    asked: dict[str, Callable[[], object]] = {
        "a weight change": lambda: stack.reweigh(5, fence=Fence(3, next(turns))),
        "counts": lambda: stack.metrics.counts("chat"),
        "refresh with nothing to do": gateway.refresh,
        "health": gateway.health,
    }
    alone = {name: own_cpu(call, 20) for name, call in asked.items()}
    for number in range(services):
        spec = RouteSpec(
            f"service-{number}", RouteTarget(f"s{number}-a", "a:1"), RouteTarget(f"s{number}-b", "b:1"), 10
        )
        gateway.set_route(spec, fence=Fence(1, 1))
    rows = []
    for name, call in asked.items():
        beside = own_cpu(call, 20)
        rows.append(RequiredFigure(f"{name} beside {services} services, own CPU", f"{beside * 1000:.2f} ms"))
        rows.append(at_most(f"{name}: beside {services} / beside none", beside / alone[name], BESIDE_OTHERS))
    return [*rows, RequiredFigure("Envoy's memory", f"{resident_mib(stack):.0f} MiB")]


def resident_mib(stack: EnvoyStack) -> float:
    assert stack.process is not None
    pages = int(Path(f"/proc/{stack.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--requests", type=int, default=4000, help="per side, for the overhead")
    parser.add_argument("--services", type=int, default=40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        stack = EnvoyStack(Path(home))
        try:
            stack.start()
            for target in (STABLE, CANARY):
                stack.run_workers(target, 2)
            stack.release()
            rows = asyncio.run(weight_changes(stack, options.changes))
            rows += asyncio.run(overhead(stack, options.requests))
            rows += calls(stack, options.services)
        finally:
            stack.stop()
    sys.exit(report(rows))


if __name__ == "__main__":
    main()
