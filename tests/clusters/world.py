"""A cluster in memory whose workers a test starts, breaks and kills; and rows to run on it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db.models import Max
from django.utils import timezone

from accounts.models import Team
from clusters.agents import AgentContact
from clusters.backends.base import (
    CannotRun,
    ClusterUnreachable,
    DeploymentSpec,
    ModelVersion,
    ObservedNode,
    ObservedState,
    StaleDeploymentFence,
    UnreadNode,
)
from clusters.backends.fake import FakeClusterBackend
from clusters.models import Cluster, Deployment, Gpu, Node
from clusters.reconcilers.clusters import ClusterReconciler
from clusters.reconcilers.deployment_steps import DeploymentTools
from clusters.reconcilers.deployments import DeploymentReconciler
from clusters.reconcilers.drains import DrainReconciler
from clusters.reconcilers.nodes import NodeReconciler
from common.fence import Fence
from common.reconcile import Kernel, Reconciler
from models_registry.models import Model, Version, VersionFile
from models_registry.states import VersionState
from tests.crash.harness import Checkpoints, Clock, worker


class World(FakeClusterBackend):
    """The fake, with workers that a test starts, drains, breaks and kills by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.cannot_run = ""
        self.takes_orders = True
        """False: it can be looked at, and orders are answered by nobody."""
        self.drains_at_once = True
        self.late = 0
        self.bring_files: Callable[[ModelVersion], object] = lambda _version: None
        self.machines: tuple[ObservedNode | UnreadNode, ...] = super().nodes()

    def nodes(self) -> tuple[ObservedNode | UnreadNode, ...]:
        super().nodes()  # Raises when it is out of reach.
        return self.machines

    def apply(self, spec: DeploymentSpec, *, fence: Fence) -> None:
        self._take_order()
        if self.cannot_run:
            raise CannotRun(self.cannot_run)
        self.bring_files(spec.version)
        with self._draining():
            super().apply(spec, fence=fence)

    def remove(self, deployment: str, *, fence: Fence) -> None:
        self._take_order()
        with self._draining():
            super().remove(deployment, fence=fence)

    def _take_order(self) -> None:
        if not self.takes_orders:
            raise ClusterUnreachable("etcdserver: leader changed")

    def crash_with(self, worker: str, said: str, *, reason: str = "exit status 1") -> None:
        """Its process writes this, ends, and is started again."""
        self._logs[worker].append(said)
        starts_as, self.starts_as = self.starts_as, ObservedState.STARTING
        self.crash(worker, reason=reason)
        self.starts_as = starts_as

    def turn(self, worker: str, state: ObservedState, *, reason: str = "", pid: int | None = None) -> None:
        """`pid` for one that failed but lives on, to say why."""
        super().turn(worker, state, reason=reason)
        if pid is not None:
            self._workers[worker] = replace(self._workers[worker], pid=pid)

    def end(self, worker: str) -> None:
        """A worker that drained is gone."""
        del self._workers[worker]

    def forget(self) -> None:
        """The machine was switched off and on: nothing runs."""
        self._workers.clear()

    @contextmanager
    def _draining(self) -> Iterator[None]:
        before = dict(self._workers)
        try:
            yield
        except StaleDeploymentFence:
            self.late += 1
            raise
        if not self.drains_at_once:
            gone = before.keys() - self._workers.keys()
            self._workers |= {name: replace(before[name], state=ObservedState.DRAINING) for name in gone}


class Scene:
    """A cluster, a version to run on it, and the workers of the kernel that move the rows."""

    def __init__(self, kernel: type[Kernel] = Kernel) -> None:
        self.kernel = kernel
        self.clock = Clock(timezone.now())
        self.world = World()
        self.world.bring_files = self.bring_files
        self.files_error: Exception | None = None
        self.brought = 0
        """So often the files were made ready."""
        self.meanwhile: Callable[[], None] | None = None
        """What happens while they are."""
        self.heartbeats: dict[str, Any] | None = None
        self.agents: dict[int, AgentContact] | None = {}
        """By the machine's id."""
        self.relay: AgentContact | None = None
        self.team = Team.objects.get_or_create(name="vision")[0]
        self.cluster = Cluster.objects.get_or_create(name="local", defaults={"kind": "embedded"})[0]
        self.version = version_of(self.team)

    def bring_files(self, version: ModelVersion) -> None:
        if self.files_error:
            raise self.files_error
        self.brought += 1
        if self.meanwhile:
            self.meanwhile()

    def reconcilers(self) -> list[Reconciler[Any]]:
        tools = DeploymentTools(
            backend_of=lambda _cluster: self.world,
            heartbeats=lambda _names: self.heartbeats,
            agents=lambda _cluster: self.agents,
        )
        return [
            DeploymentReconciler(tools),
            ClusterReconciler(
                lambda _cluster: self.world, lambda _cluster: self.agents, lambda _cluster: self.relay
            ),
            NodeReconciler(lambda _cluster: self.world),
            DrainReconciler(lambda _cluster: self.world),
        ]

    def worker(self, checkpoints: Checkpoints | None = None) -> Kernel:
        return worker(self.reconcilers(), self.clock, checkpoints, self.kernel)

    def pass_(self, seconds: float, *, by: float = 0.5) -> None:
        """Let time pass while a kernel sweeps."""
        self._hear()
        kernel = self.worker()
        left = seconds
        while left > 0:
            kernel.sweep()
            self.clock.pass_(timedelta(seconds=by))
            left -= by
        kernel.sweep()

    def _hear(self) -> None:
        """Advance the clock to the real time, which services use and which a slow machine has run ahead."""
        now = timezone.now()
        for kind in (one.model for one in self.reconcilers()):
            asked = kind._default_manager.filter(next_at__lte=now).aggregate(at=Max("next_at"))["at"]
            self.clock.at = max(self.clock.at, asked or self.clock.at)

    def deployment(self, name: str = "chat-v1", **fields: Any) -> Deployment:
        return Deployment.objects.create(
            **{
                "name": name,
                "cluster": self.cluster,
                "team": self.team,
                "service": "chat",
                "version": self.version,
                "version_label": str(self.version),
                "engine": "echo",
                "replicas": 2,
                "slots": 4,
                "op_key": f"test:{name}",
                "created_by": "test",
                "created_at": self.clock(),
                "next_at": self.clock(),
                "state_since": self.clock(),
            }
            | fields
        )


def node_of(cluster: Cluster, name: str = "box", **fields: Any) -> Node:
    return Node.objects.create(
        **{"cluster": cluster, "uid": f"uid-of-{name}", "name": name, "seen_at": timezone.now()} | fields
    )


def gpu_of(node: Node, index: int = 0, **fields: Any) -> Gpu:
    given = {"uuid": f"GPU-{node.name}-{index}", "name": "H100", "memory_bytes": 80}
    return Gpu.objects.create(**given | {"cluster": node.cluster, "node": node, "index": index} | fields)


def version_of(team: Team, label: str = "story:v1") -> Version:
    name, _, version = label.partition(":")
    model = Model.objects.get_or_create(team=team, name=name)[0]
    existing = Version.objects.filter(model=model, name=version).first()
    return existing or Version.objects.create(
        model=model,
        number=Version.objects.filter(model=model).count() + 1,
        name=version,
        state=VersionState.READY,
        digest="0" * 64,
        ready_at=timezone.now(),
        file_count=1,
    )


def adapter_of(team: Team, label: str = "pirate:v1") -> Version:
    """A version whose files are a LoRA adapter."""
    version = version_of(team, label)
    names = ("adapter_config.json", "adapter_model.safetensors")
    if not VersionFile.objects.filter(version=version).exists():
        VersionFile.objects.bulk_create(
            [VersionFile(version=version, path=name, size=1, sha256="0" * 64) for name in names]
        )
    return version
