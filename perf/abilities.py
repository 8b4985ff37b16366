"""Routing by ability beside one ideal queue: `python -m perf.abilities [--requests 800]`.

Real Envoys before real workers of two services, whose engine waits so long as it is asked to. Each row serves
the same seeded arrivals at load 0.8 as the ideal, one queue before all slots, which takes the time that a
request takes at an idle worker. Exits with 1 where the mean is more than 10 % above the ideal.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median

from common.fence import Fence
from gateway.routes import AbilityMember, AbilitySpec, RouteSpec, RouteTarget, WorkerEndpoint
from perf.envoy_stack import EnvoyStack, free_port
from perf.load import LoadClient
from perf.required import RequiredFigure, at_most, report
from perf.routing import Arrival, arrivals, ideal, p95
from tests.patience import eventually
from tests.serving.workers import RunningWorker, running

TOKEN_SECONDS = 0.25
SCALE = 0.25
"""Of the simulation's times: requests of 2.5 s in the mean."""
SERVICES = (RouteTarget("small-1", "small:v1"), RouteTarget("large-1", "large:v1"))
FLEETS = {"4 x 4 and 4 x 4": (4, 4), "4 x 2 and 4 x 6": (2, 6)}
WORKERS = 4
"""Of each service."""


def tokens_of(request: Arrival) -> int:
    return max(1, round(request.seconds * SCALE / TOKEN_SECONDS))


def body(tokens: int) -> bytes:
    return json.dumps({"prompt": "x " * tokens, "max_tokens": tokens}).encode()


async def ask(port: int, path: str, tokens: int) -> float:
    """Return the seconds until the whole answer."""
    client = LoadClient(port)
    began = time.perf_counter()
    try:
        answer = await client.post(path, body(tokens))
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {answer.body[:200]!r}")
    finally:
        client.close()
    return time.perf_counter() - began


def told_of(stack: EnvoyStack, workers: Sequence[Sequence[RunningWorker]], slots: Sequence[int]) -> None:
    """Give a gateway both services, and the ability that their workers share."""
    endpoints = []
    for turn, (target, ports, of_one) in enumerate(zip(SERVICES, workers, slots, strict=True), 1):
        found = [WorkerEndpoint("127.0.0.1", one.port, of_one, target) for one in ports]
        stack.gateway.set_target(target.name, found, observed_at=datetime.now(UTC))
        name = target.version.partition(":")[0]
        stack.gateway.set_route(RouteSpec(name, target, None, 0), fence=Fence(1, turn))
        endpoints += found
    members = (AbilityMember("small", WORKERS * slots[0]), AbilityMember("large", WORKERS * slots[1]))
    ability = AbilitySpec("words", members)
    stack.gateway.set_target(ability.target, endpoints, observed_at=datetime.now(UTC))
    stack.gateway.set_abilities([ability], observed_at=datetime.now(UTC))
    eventually(lambda: len(stack.gateway.ready(ability.target)) == 2 * WORKERS)


async def served(requests: Sequence[Arrival], ports: Sequence[int], path: str) -> list[float]:
    began = time.perf_counter()

    async def one(request: Arrival) -> float:
        await asyncio.sleep(request.at * SCALE - (time.perf_counter() - began))
        return await ask(ports[request.gateway], path, tokens_of(request))

    return list(await asyncio.gather(*(one(request) for request in requests)))


def measured(
    home: Path, slots: tuple[int, int], gateways: int, count: int
) -> tuple[list[float], list[float]]:
    """Return response times of the ideal and of the gateways."""
    total = WORKERS * sum(slots)
    requests = arrivals(total, gateways, count, seed=7)
    with ExitStack() as running_ones:
        workers = [
            [
                running_ones.enter_context(
                    running(
                        home / f"{target.name}-{number}.log",
                        slots=of_one,
                        queue_limit=10_000,
                        port=free_port(),
                        settings={"token_seconds": TOKEN_SECONDS},
                    )
                )
                for number in range(WORKERS)
            ]
            for target, of_one in zip(SERVICES, slots, strict=True)
        ]
        for worker in (one for some in workers for one in some):
            worker.until_ready()
        stacks = [EnvoyStack(home / f"gateway-{number}") for number in range(gateways)]
        for stack in stacks:
            stack.layout.run_dir.mkdir(parents=True)
            running_ones.callback(stack.stop)
            stack.start()
            told_of(stack, workers, slots)
        ports = [stack.layout.port for stack in stacks]
        alone = [asyncio.run(ask(ports[0], "/words/v1/completions", 10)) for _ in range(3)]
        per_token = median(alone) / 10
        took = [replace(one, at=one.at * SCALE, seconds=tokens_of(one) * per_token) for one in requests]
        return ideal(total, took), asyncio.run(served(requests, ports, "/words/v1/completions"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m perf.abilities", description=__doc__)
    parser.add_argument("--requests", type=int, default=800)
    options = parser.parse_args()
    rows: list[RequiredFigure] = []
    for name, slots in FLEETS.items():
        for gateways in (1, 3):
            with tempfile.TemporaryDirectory() as directory:
                best, found = measured(Path(directory), slots, gateways, options.requests)
            told = f"{name} slots, {gateways} gateways"
            shown = (
                f"{fmean(found):.2f} s and {fmean(best):.2f} s, p95 {p95(found):.2f} s and {p95(best):.2f} s"
            )
            rows.append(RequiredFigure(f"{told}: mean, and the ideal's", shown))
            rows.append(at_most(f"{told}: mean over the ideal's", fmean(found) / fmean(best), 1.1))
    sys.exit(report(rows))


if __name__ == "__main__":
    main()
