"""Clusters under test: the fake, and the embedded one on a real supervisord."""

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from clusters.backends.base import (
    ClusterBackend,
    DeploymentSpec,
    ModelVersion,
    ObservedState,
    ObservedWorker,
)
from clusters.backends.embedded.backend import EmbeddedCluster
from clusters.backends.fake import FakeClusterBackend
from clusters.backends.kubernetes.backend import KubernetesCluster
from clusters.backends.kubernetes.settings import KubernetesSettings
from common.fence import Fence
from common.hosts import this_host
from common.jobs.runners.subprocess import SubprocessRunner
from controlplane.embedded import running
from controlplane.embedded.home import Home
from controlplane.embedded.programs import supervisord_conf
from controlplane.environment import PROJECT
from kube.client import KubeClient
from kube.fake.cluster import SimulatedCluster as FakeApiCluster
from kube.fake.cluster import node
from kube.fake.controllers.machines import BEHAVIOUR
from kube.fake.kinds import BUILT_IN, ObjectKind
from kube.fake.transport import FakeTransport
from kube.fake.wire import ADMIN
from kube.resources import NODES, PODS, Ref
from serving.worker_command import WorkerCommand
from tests.patience import PATIENCE_SECONDS, eventually
from tests.ports import PortBlock

PORTS = PortBlock()
numbers = count(1)
IMAGE = f"registry.example/worker@sha256:{'0' * 64}"


def stub_argv(command: WorkerCommand) -> list[str]:
    return [sys.executable, "-m", "tests.contracts.stub_worker", *command.argv()[3:]]


class Rig(Protocol):
    """A cluster under test, and what only the world can do to it."""

    cluster: ClusterBackend

    def kill(self, worker: ObservedWorker) -> None: ...

    def cut(self) -> ClusterBackend:
        """The same kind of cluster, out of reach."""

    def another(self) -> AbstractContextManager[ClusterBackend]:
        """A second cluster of the kind, beside this one."""


class FakeRig:
    name = "fake"

    def __init__(self) -> None:
        self.cluster = FakeClusterBackend()

    def kill(self, worker: ObservedWorker) -> None:
        self.cluster.crash(worker.name)

    def cut(self) -> ClusterBackend:
        cluster = FakeClusterBackend()
        cluster.reachable = False
        return cluster

    @contextmanager
    def another(self) -> Iterator[ClusterBackend]:
        yield FakeClusterBackend()


class TickingCluster(KubernetesCluster):
    """Time passes in its world whenever somebody looks."""

    def __init__(self, server: FakeApiCluster) -> None:
        settings = KubernetesSettings(store_url="https://slipway.example", jobs_image=IMAGE)
        super().__init__(KubeClient(FakeTransport(server, user=ADMIN)), settings)
        self.server = server

    def apply(self, spec: DeploymentSpec, *, fence: Fence) -> None:
        super().apply(replace(spec, image=IMAGE), fence=fence)

    def bring_files(self, spec: DeploymentSpec, machines: Collection[str]) -> bool:
        return super().bring_files(replace(spec, image=IMAGE), machines)

    def observe(self, deployment: str) -> tuple[ObservedWorker, ...]:
        self.server.advance(1)
        return super().observe(deployment)


class KubernetesRig:
    """On a fake API server with its controllers and kubelets, all of them in this process."""

    name = "kubernetes"

    def __init__(self, *, machines: int = 1, kinds: Sequence[ObjectKind] = BUILT_IN) -> None:
        self.jobs_said: dict[tuple[str, str], str] = {}
        self.server = FakeApiCluster(
            nodes=[node(f"gpu-{number}", **{"nvidia.com/gpu": "8"}) for number in range(machines)],
            kinds=kinds,
        )
        self.server.make("namespaces", {"metadata": {"name": "slipway"}})
        self.server.advance(1)
        self.cluster = TickingCluster(self.server)
        self.server.logs = self.jobs_said

    def label(self, key: str, value: str) -> None:
        """All its machines."""
        for one in self.cluster.client.list(NODES).items:
            self.cluster.client.patch(
                Ref(NODES, one["metadata"]["name"]), {"metadata": {"labels": {key: value}}}
            )

    def end_job(self, name: str, *, behaviour: str = "succeed", said: str = "") -> None:
        """Its pod's program does so."""
        self.server.advance(2)
        client = self.cluster.client
        (pod,) = client.list(PODS, labels=f"batch.kubernetes.io/job-name={name}").items
        ref = Ref(PODS, pod["metadata"]["name"], "slipway")
        self.jobs_said["slipway", ref.name] = said
        client.patch(ref, {"metadata": {"annotations": {BEHAVIOUR: behaviour}}})
        self.server.advance(10)


class EmbeddedRig:
    """A real supervisord, with workers that start at once."""

    name = "embedded"

    def __init__(self, home: Path) -> None:
        self.home = Home(home)
        self.home.make()
        self.plane = self.home.data
        self.plane.conf.write_text(supervisord_conf([], self.plane, include="supervisor.d/*.conf"))
        self.cluster = self.cluster_at(home)
        self._supervisord = self._start()

    def cluster_at(self, home: Path, **options: Any) -> EmbeddedCluster:
        places = {"run_dir": home / "run", "log_dir": home / "logs", "directory": PROJECT}
        jobs = SubprocessRunner(home / "jobs", host=this_host(), code=PROJECT, is_full=lambda: False)
        tools = {
            "job_runner": lambda: jobs,
            "argv": stub_argv,
            "bring_files": lambda _version: Path("/models/tiny"),
        }
        return EmbeddedCluster(**places | tools | {"ports": PORTS.workers} | options)

    def kill(self, worker: ObservedWorker) -> None:
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)

    def cut(self) -> ClusterBackend:
        return self.cluster_at(self.home.path.parent / "nobody")

    @contextmanager
    def another(self) -> Iterator[ClusterBackend]:
        beside = EmbeddedRig(self.home.path.parent / "beside")
        try:
            yield beside.cluster
        finally:
            beside.stop()

    def restart(self) -> list[str]:
        """Everything ends without a farewell and starts again, as after a power cut."""
        self.kill_supervisord()
        running.kill(running.descendants(self.plane.socket))
        return self.start_supervisord()

    def kill_supervisord(self) -> None:
        self._supervisord.kill()
        self._supervisord.wait()

    def start_supervisord(self) -> list[str]:
        problems = self.cluster.restore(running.programs(self.plane.socket))
        self._supervisord = self._start()
        self.cluster.settle()
        return problems

    def stop(self) -> None:
        self._supervisord.terminate()
        self._supervisord.wait(20)

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", running.SUPERVISORD, "-c", self.plane.conf]
        process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(lambda: self.cluster.health().ok)
        return process


def wish(*, replicas: int = 2, **options: Any) -> DeploymentSpec:
    """A deployment of a name that no test has used."""
    fields = {
        "name": f"chat-r{next(numbers)}",
        "service": "chat",
        "version": ModelVersion(id=1, label="tiny:v1"),
        "engine": "echo",
        "replicas": replicas,
    }
    return DeploymentSpec(**fields | options)


def ready(
    cluster: ClusterBackend, spec: DeploymentSpec, *, seconds: float = PATIENCE_SECONDS
) -> tuple[ObservedWorker, ...]:
    """The workers, once all that were asked for are ready and no others are there."""

    def all_ready() -> bool:
        seen = cluster.observe(spec.name)
        return len(seen) == spec.replicas and {worker.state for worker in seen} <= {ObservedState.READY}

    eventually(all_ready, seconds=seconds)
    return cluster.observe(spec.name)
