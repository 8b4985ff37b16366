"""What keys of clients cost in Envoy: `python -m perf.client_keys` prints its CPU per request and per chunk.

A real Envoy before a worker that does nothing: with an empty script, with ours and no key, and with a key
that has limits, in turns. What is required is a ratio of Envoy's own CPU in one run.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import psutil

from common.fence import Fence
from gateway.backends.envoy import client_access
from gateway.client_access import KEY_HEADER, AllowedKey, ClientAccess, key_hash, new_key_text
from gateway.routes import RouteSpec
from perf.envoy_stack import STABLE, EnvoyStack
from perf.load import LoadClient
from perf.required import RequiredFigure, at_most, report
from tests.patience import eventually

KEY = new_key_text()
CLIENTS, CHUNKS, EVERY_MS = 10, 300, 4
CHUNK = 2.0
"""Envoy's own CPU for a chunk of a stream with a key's script, beside that without a script."""
REQUEST = 2.5

WITHOUT, WITH_SCRIPT, WITH_KEY = "with an empty script", "without a key", "with a key"


def choose(stack: EnvoyStack, variant: str) -> Mapping[str, str]:
    """Give Envoy the script, or an empty one, and return the headers of a client."""
    key = AllowedKey("7", key_hash(KEY), frozenset({"chat"}), 1_000_000_000, 1_000_000_000)
    whole = client_access._source
    try:
        if variant == WITHOUT:
            client_access._source = lambda _access: "-- nothing is looked at"
        stack.gateway.set_access(ClientAccess((key,)), observed_at=datetime.now(UTC))
    finally:
        client_access._source = whole
    return {KEY_HEADER: KEY} if variant == WITH_KEY else {}


async def envoy_cpu(stack: EnvoyStack, path: str, headers: Mapping[str, str], *, each: int) -> float:
    """Return the seconds of CPU that Envoy used while all clients asked so often."""
    assert stack.process is not None
    envoy = psutil.Process(stack.process.pid)

    async def ask() -> None:
        client = LoadClient(stack.layout.port)
        for _ in range(each):
            assert (await client.get(path, headers)).status == 200
        client.close()

    began = envoy.cpu_times()
    await asyncio.gather(*(ask() for _ in range(CLIENTS)))
    ended = envoy.cpu_times()
    return ended.user + ended.system - began.user - began.system


async def measured(stack: EnvoyStack, rounds: int) -> list[RequiredFigure]:
    stream = f"/chat/v1/tokens?stream=1&prompt=9&completion={CHUNKS}&every_ms={EVERY_MS}"
    used: dict[str, list[tuple[float, float]]] = {WITHOUT: [], WITH_SCRIPT: [], WITH_KEY: []}
    for _ in range(rounds):
        for variant, found in used.items():
            headers = choose(stack, variant)
            request = await envoy_cpu(stack, "/chat/v1", headers, each=200) / (CLIENTS * 200)
            chunk = await envoy_cpu(stack, stream, headers, each=1) / (CLIENTS * CHUNKS)
            found.append((request * 1e6, chunk * 1e6))
    rows = []
    for at, (unit, most) in enumerate((("request", REQUEST), ("chunk", CHUNK))):
        medians = {name: statistics.median(one[at] for one in found) for name, found in used.items()}
        for name, microseconds in medians.items():
            rows.append(RequiredFigure(f"Envoy's own CPU per {unit}, {name}", f"{microseconds:.0f} us"))
        rows.append(
            at_most(f"per {unit}: {WITH_KEY} / {WITHOUT}", medians[WITH_KEY] / medians[WITHOUT], most)
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        stack = EnvoyStack(Path(home))
        try:
            stack.start()
            stack.run_workers(STABLE)
            stack.gateway.set_route(RouteSpec("chat", STABLE, None, 0), fence=Fence(1, 1))
            eventually(lambda: bool(stack.gateway.ready(STABLE.name)))
            rows = asyncio.run(measured(stack, options.rounds))
        finally:
            stack.stop()
    sys.exit(report(rows))


if __name__ == "__main__":
    main()
