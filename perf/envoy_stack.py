"""A real Envoy with real workers behind it, on ports of their own."""

import asyncio
import random
import socket
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from common.fence import Fence
from gateway.backends.envoy.backend import EnvoyFiles
from gateway.backends.envoy.bootstrap import command, write_bootstrap
from gateway.backends.envoy.counters import EnvoyCounters
from gateway.backends.envoy.layout import EnvoyFileLayout
from gateway.routes import RouteSpec, RouteTarget, WorkerEndpoint
from perf.load import LoadAnswer, LoadClient
from perf.upstream import Upstream
from tests.patience import eventually

STABLE = RouteTarget("chat-1", "chatty:1")
CANARY = RouteTarget("chat-2", "chatty:2")


_handed_out: set[int] = set()


def free_port() -> int:
    """A port that no outgoing connection takes before the caller does: from below the ephemeral range."""
    while True:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _handed_out:
            _handed_out.add(port)
            return port


class EnvoyStack:
    def __init__(self, home: Path, otlp: str = "", **limits: int) -> None:
        """`limits`: the seconds of `EnvoyFileLayout` for which clients are waited for."""
        self.layout = EnvoyFileLayout(
            run_dir=home / "run" / "envoy",
            log_dir=home / "logs",
            bind="127.0.0.1",
            port=free_port(),
            admin_port=free_port(),
            otlp=otlp,
            **limits,
        )
        self.log = home / "envoy.log"
        self.gateway = EnvoyFiles(self.layout)
        self.metrics = EnvoyCounters(self.layout)
        self.workers: dict[str, list[Upstream]] = {}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *, within_seconds: float = 10) -> None:
        write_bootstrap(self.layout)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command(self.layout), stdout=log, stderr=log)
        try:
            eventually(lambda: self.gateway.health().ok, seconds=within_seconds)
        except AssertionError:
            raise AssertionError(f"{self.gateway.health()}\n{self.log.read_text()}") from None

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.kill()
        for workers in self.workers.values():
            for worker in workers:
                worker.kill()

    def run_workers(self, target: RouteTarget, count: int = 1) -> list[Upstream]:
        """Start workers and tell the gateway of them."""
        self.workers.setdefault(target.name, []).extend(Upstream(target.version) for _ in range(count))
        self.tell_endpoints(target)
        return self.workers[target.name]

    def tell_endpoints(self, target: RouteTarget, *, without: Upstream | None = None) -> None:
        endpoints = [
            WorkerEndpoint("127.0.0.1", worker.port)
            for worker in self.workers[target.name]
            if worker is not without
        ]
        self.gateway.set_target(target.name, endpoints, observed_at=datetime.now(UTC))

    def release(self, percent: int = 0, *, turn: int = 1) -> None:
        """A route with both sides, and both sides ready."""
        spec = RouteSpec("chat", STABLE, CANARY, percent, release_header="open")
        self.gateway.set_route(spec, fence=Fence(1, turn))
        for target in (STABLE, CANARY):
            if self.workers.get(target.name):
                eventually(lambda name=target.name: bool(self.gateway.ready(name)))

    def reweigh(self, percent: int, *, fence: Fence) -> None:
        """Another share for the candidate, and all else as it is."""
        spec = self.gateway.desired_route("chat")
        assert spec is not None
        self.gateway.set_route(replace(spec, candidate_percent=percent), fence=fence)

    def get(self, path: str, **headers: str) -> LoadAnswer:
        async def ask() -> LoadAnswer:
            client = LoadClient(self.layout.port)
            try:
                return await client.get(
                    path, {name.replace("_", "-"): value for name, value in headers.items()}
                )
            finally:
                client.close()

        return asyncio.run(ask())
