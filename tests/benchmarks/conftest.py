"""Benchmarks on a cluster in memory whose workers are scripted servers, loaded by the real generator."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from accounts.actors import of_user
from benchmarks import validity
from benchmarks.models import Benchmark
from benchmarks.reconcilers.benchmarks import BenchmarkReconciler
from benchmarks.reconcilers.cleanup import CleanupReconciler
from benchmarks.reconcilers.runs import RunReconciler
from benchmarks.services import create_benchmark
from clusters.backends.base import DeploymentSpec
from clusters.models import Cluster
from clusters.reconcilers.deployment_steps import DeploymentTools
from clusters.reconcilers.deployments import DeploymentReconciler
from common.reconcile import Kernel
from tests.benchmarks.scripted_server import Script, ScriptedServer, scripted_server
from tests.cast import person, team
from tests.clusters.world import World, version_of

SCENARIO: dict[str, Any] = {"rates": [40], "requests": 50, "input": 20, "output": 8, "warm_up_requests": 2}
SPEC: dict[str, Any] = {
    "versions": ["story:v1"],
    "repeats": 1,
    "space": {"engines": ["echo"], "parameters": {"token_seconds": [0.001, 0.02]}},
}


class ScriptedCluster(World):
    """Each worker is a server of its own, whose TPOT is the parameter `token_seconds`."""

    def __init__(self) -> None:
        super().__init__()
        self.servers = ExitStack()
        self.by_worker: dict[str, ScriptedServer] = {}

    def _start(self, spec: DeploymentSpec, name: str, *node: Any) -> None:
        super()._start(spec, name, *node)
        script = Script(ttft=0.005, tpot=spec.settings.get("token_seconds", 0.001))
        server = self.servers.enter_context(scripted_server(script))
        self.by_worker[name] = server
        self._workers[name] = replace(self._workers[name], port=int(server.url.rpartition(":")[2]))


class BenchmarkScene:
    def __init__(self) -> None:
        self.team = team("speech")
        self.user = person("ada", speech="developer")
        self.actor = of_user(self.user)
        self.cluster = Cluster.objects.get_or_create(name="local", defaults={"kind": "embedded"})[0]
        self.version = version_of(self.team)
        self.world = ScriptedCluster()
        self.kernel = Kernel(clock=timezone.now)
        tools = DeploymentTools(backend_of=lambda _cluster: self.world, heartbeats=lambda _names: None)
        for one in (BenchmarkReconciler(), RunReconciler(), CleanupReconciler(), DeploymentReconciler(tools)):
            self.kernel.register(one)

    def begin(self, scenario: dict[str, Any] | None = None, **spec: Any) -> Benchmark:
        return create_benchmark(
            actor=self.actor,
            team=self.team,
            name=f"slots-{Benchmark.objects.count()}",
            cluster="local",
            scenario={**SCENARIO, **(scenario or {})},
            spec={**SPEC, **spec},
        )

    def run_until(self, holds: Callable[[], bool], *, seconds: float = 90) -> None:
        until = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < until, "It never came to be."
            self.kernel.sweep()
            time.sleep(0.05)

    def run_to_end(self, row: Benchmark, *, seconds: float = 90) -> Benchmark:
        self.run_until(lambda: Benchmark.objects.get(pk=row.pk).ended_at is not None, seconds=seconds)
        row.refresh_from_db()
        return row

    def running(self) -> list[str]:
        return sorted(self.world._workers)


OF_THE_MACHINE = ("lateness", "offered", "client", "saturation")
"""Rules that a busy machine breaks; `test_load.py` has them."""


def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the rules that a busy machine breaks."""
    calm = [rule for rule in validity.RULES if rule.name not in OF_THE_MACHINE]
    monkeypatch.setattr(validity, "RULES", calm)


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a run's tests make the environments that they ask for, once."""
    return tmp_path_factory.mktemp("environments")


@pytest.fixture
def scene(
    db: None, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[BenchmarkScene]:
    quiet_machine(monkeypatch)
    settings.SLIPWAY_JOBS_DIR = tmp_path / "jobs"
    settings.SLIPWAY_STORE_DIR = tmp_path / "models"
    found = BenchmarkScene()
    with found.world.servers:
        yield found
