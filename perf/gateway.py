"""How fast and how harmless the gateway is: `python -m perf.gateway [--changes 100]` prints a table.

A real Envoy with two workers a side on this machine, under short requests and streams of two seconds.
Latencies directly to a worker and through Envoy are taken in turns in the same run, so that they compare.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gateway.routes import Fence, RouteSpec, Target
from perf.envoy_stack import CANARY, STABLE, EnvoyStack
from perf.load import Client, Load

SHORT, STREAM = "/chat/v1", "/chat/v1/stream?chunks=20&every_ms=100"
Row = tuple[str, str]


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(round(share * len(ordered)), len(ordered) - 1)]


def spread(milliseconds: Sequence[float]) -> str:
    p50, p95 = (percentile(milliseconds, share) for share in (0.5, 0.95))
    return f"p50 {p50:.2f} ms, p95 {p95:.2f} ms, max {max(milliseconds):.2f} ms"


async def first_on(side: str, load: Load, *, after: float) -> float:
    """Milliseconds from `after` until a short request, sent later than that, was answered by `side`."""
    looked_at = max(0, len(load.answers) - 500)
    while True:
        while looked_at < len(load.answers):
            path, answer = load.answers[looked_at]
            looked_at += 1
            if path == SHORT and answer.version == side and answer.sent_at >= after:
                return (answer.ended_at - after) * 1000
        await asyncio.sleep(0.001)


async def weight_changes(stack: EnvoyStack, changes: int) -> list[Row]:
    load = Load(stack.layout.port)
    load.add(SHORT, clients=8, pause_ms=5)
    load.add(STREAM, clients=20)
    calls, arrivals = [], []
    began = time.perf_counter()
    for change in range(changes):
        percent = 0 if change % 2 else 100
        side = (CANARY if percent else STABLE).version
        asked_at = time.perf_counter()
        fence = Fence(1, change + 2)
        await asyncio.to_thread(stack.reweigh, percent, fence=fence)
        calls.append((time.perf_counter() - asked_at) * 1000)
        arrivals.append(await first_on(side, load, after=asked_at))
        await asyncio.sleep(max(0.0, 0.2 - (time.perf_counter() - asked_at)))
    await load.finish()
    seconds = time.perf_counter() - began
    streams = sum(path == STREAM for path, _ in load.answers)
    return [
        ("weight changes, 0 % <-> 100 %", str(changes)),
        (
            "requests meanwhile",
            f"{len(load.answers)} ({streams} streams of 2 s), {len(load.answers) / seconds:.0f}/s",
        ),
        ("failed", str(len(load.failures))),
        ("set_weights returns after", spread(calls)),
        ("first answer from the new side after", spread(arrivals)),
    ]


async def overhead(stack: EnvoyStack, requests: int) -> list[Row]:
    worker = stack.workers[STABLE.name][0]
    stack.reweigh(0, fence=Fence(2, 1))
    timings: dict[str, list[float]] = {"direct": [], "gateway": []}
    clients = {"direct": (Client(worker.port), "/v1"), "gateway": (Client(stack.layout.port), SHORT)}
    for _ in range(requests // 50):
        for name, (client, path) in clients.items():
            timings[name] += [(await client.get(path)).milliseconds for _ in range(50)]
    for client, _ in clients.values():
        client.close()
    added = statistics.median(timings["gateway"]) - statistics.median(timings["direct"])
    return [
        ("one connection, directly to a worker", spread(timings["direct"])),
        ("one connection, through the gateway", spread(timings["gateway"])),
        ("the gateway adds (difference of medians)", f"{added * 1000:.0f} us"),
    ]


def timed(call: Callable[[], object], times: int) -> list[float]:
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        taken.append((time.perf_counter() - began) * 1000)
    return taken


def calls(stack: EnvoyStack, services: int) -> list[Row]:
    gateway = stack.gateway
    others = [
        RouteSpec(f"service-{number}", Target(f"s{number}-a", "a:1"), Target(f"s{number}-b", "b:1"), 10)
        for number in range(services)
    ]
    fresh = [timed(lambda spec=spec: gateway.set_route(spec, fence=Fence(1, 1)), 1)[0] for spec in others]
    turn = iter(range(2, 100))
    weights = timed(lambda: gateway.set_weights("chat", candidate_percent=5, fence=Fence(3, next(turn))), 20)
    return [
        (f"set_route of {services} new services", spread(fresh)),
        (f"set_weights beside {services} services", spread(weights)),
        (f"counts of one service among {services}", spread(timed(lambda: stack.metrics.counts("chat"), 50))),
        ("refresh with nothing to do", spread(timed(gateway.refresh, 5))),
        ("health", spread(timed(gateway.health, 20))),
        ("Envoy's memory", f"{resident_mib(stack):.0f} MiB"),
    ]


def resident_mib(stack: EnvoyStack) -> float:
    assert stack.process is not None
    pages = int(Path(f"/proc/{stack.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--requests", type=int, default=4000, help="per side, for the overhead")
    parser.add_argument("--services", type=int, default=50)
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
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")


if __name__ == "__main__":
    main()
