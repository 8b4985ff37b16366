"""A fake gateway and a real Envoy, each with its workers and its clients."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Protocol

from gateway.backends.base import TrafficBackend, TrafficMetrics
from gateway.backends.fake import Behaviour, FakeGateway
from gateway.errors import (
    UnknownRoute,
)
from gateway.routes import Endpoint, RouteSpec, Side, Target
from perf.envoy_stack import EnvoyStack
from perf.load import Answer, Client
from tests.patience import eventually

OPEN = partial(RouteSpec, "chat", release_header="open")


class World(Protocol):
    """A backend, its workers and its clients."""

    gateway: TrafficBackend
    metrics: TrafficMetrics

    def run_workers(self, target: Target) -> None: ...
    def send(self, requests: int, *, release: Side | None = None, key: str = "") -> Mapping[str, int]:
        """How many answers each version gave; a request for an unknown service raises UnknownRoute."""

    def break_workers(self, target: Target) -> None:
        """From now on they answer 500."""

    def stop(self) -> None: ...
    def start(self) -> None: ...


class FakeWorld:
    def __init__(self) -> None:
        self.gateway = self.metrics = FakeGateway(seed=7)
        self.stop, self.start = self.gateway.stop, self.gateway.start

    def run_workers(self, target: Target) -> None:
        self.gateway.set_target(target.name, [Endpoint("10.0.0.1", 8000)], observed_at=datetime.now(UTC))

    def send(self, requests: int, *, release: Side | None = None, key: str = "") -> Mapping[str, int]:
        spec = self.gateway.desired_route("chat")
        versions = {target.name: target.version for target in spec.targets} if spec else {}
        sent = self.gateway.send("chat", requests, release=release, key=key)
        return {versions[name]: count for name, count in sent.items()}

    def break_workers(self, target: Target) -> None:
        self.gateway.behave(target.name, Behaviour(error_share=1.0))


class EnvoyWorld:
    def __init__(self, home: Path) -> None:
        self.stack = EnvoyStack(home)
        self.gateway, self.metrics = self.stack.gateway, self.stack.metrics
        self.stop, self.start = self.stack.kill, self.stack.start

    def run_workers(self, target: Target) -> None:
        self.stack.run_workers(target)
        if target.name in self.gateway._store.load().clusters:
            eventually(lambda: bool(self.gateway.ready(target.name)))

    def send(self, requests: int, *, release: Side | None = None, key: str = "") -> Mapping[str, int]:
        headers = {"x-release": release} if release else {}
        headers |= {"x-release-key": key} if key else {}

        async def ask() -> list[Answer]:
            client = Client(self.stack.layout.port)
            try:
                return [await client.get("/chat/v1", headers) for _ in range(requests)]
            finally:
                client.close()

        versions: dict[str, int] = {}
        for answer in asyncio.run(ask()):
            if answer.status == 404:
                raise UnknownRoute
            versions[answer.version] = versions.get(answer.version, 0) + 1
        return versions

    def break_workers(self, target: Target) -> None:
        async def tell(port: int) -> None:
            client = Client(port)
            await client.get("/set?broken=1")
            client.close()

        for worker in self.stack.workers[target.name]:
            asyncio.run(tell(worker.port))
