"""A cluster in memory: keeps the contract of `base.py` and does what a test tells it."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count, islice
from typing import ClassVar

from clusters.backends.abilities import BackendAbilities
from clusters.backends.base import (
    CannotRun,
    ClusterConfig,
    ClusterHealth,
    ClusterUnreachable,
    DeploymentSpec,
    Misconfigured,
    ObservedNode,
    ObservedScale,
    ObservedState,
    ObservedWorker,
    StaleDeploymentFence,
    UnknownWorker,
    UnreadNode,
)
from clusters.backends.checks import ClusterCheck
from clusters.backends.embedded.abilities import ABILITIES
from clusters.backends.fake_nodes import NODE as NODE
from clusters.backends.fake_nodes import FakeNodeOperations
from clusters.backends.fake_workloads import FakeWorkloads
from clusters.backends.observed_pods import ObservedPods
from clusters.states import CheckResult
from common.fence import Fence

_ports = count(30_000)
_pids = count(40_000)


@dataclass(slots=True)
class _AppliedDeployment:
    spec: DeploymentSpec
    fence: Fence
    removed: bool = False


class FakeClusterBackend:
    """A ClusterBackend whose workers are ready at once, and gone at once, unless told otherwise.

    `reachable = False` makes every order fail. `starts_as` is the state of new workers. A spec whose
    settings have `fails` gets workers that failed with that reason.
    """

    abilities: ClassVar[BackendAbilities] = ABILITIES

    def __init__(self) -> None:
        self.reachable = True
        self.starts_as = ObservedState.READY
        self.also_checked: tuple[ClusterCheck, ...] = ()
        self.more_machines: list[ObservedNode] = []
        """New workers come to the first machine that is not cordoned."""
        self._deployments: dict[str, _AppliedDeployment] = {}
        self._workers: dict[str, ObservedWorker] = {}
        self._scaled_by: dict[str, str] = {}
        self._logs: dict[str, list[str]] = {}
        self.node_operations = FakeNodeOperations(self)
        self.workloads = FakeWorkloads()

    def apply(self, spec: DeploymentSpec, *, fence: Fence) -> None:
        self._answer()
        before = self._guard(spec.name, fence)
        if (
            before is not None
            and spec.scale_turn is not None
            and spec.scale_turn <= (before.spec.scale_turn or 0)
            and (spec.leaves_scale or spec.name in self._scaled_by)
        ):
            spec = replace(spec, replicas=before.spec.replicas)
        else:
            self._scaled_by.pop(spec.name, None)
        self._make(spec, before, fence)

    def autoscale(self, deployment: str, replicas: int) -> None:
        """Set the scale as an autoscaler would, which holds until a later wish."""
        held = self._deployments[deployment]
        self._scaled_by[deployment] = "autoscaler"
        self._make(replace(held.spec, replicas=replicas), held, held.fence)

    def scale_of(self, deployment: str) -> ObservedScale | None:
        self._answer()
        held = self._deployments.get(deployment)
        if held is None or held.removed:
            return None
        return ObservedScale(
            held.spec.replicas, self._scaled_by.get(deployment, ""), held.spec.scale_turn or 0
        )

    def _make(self, spec: DeploymentSpec, before: "_AppliedDeployment | None", fence: Fence) -> None:
        self._deployments[spec.name] = _AppliedDeployment(spec, fence)
        outdated = before is not None and _lasting(before.spec) != _lasting(spec)
        there = self._of(spec.name)
        surplus = len(there) if outdated else max(0, len(there) - spec.replicas)
        leaving = spec.leaving or ()
        first = sorted(there, key=lambda one: (one.name not in leaving, -there.index(one)))
        for worker in first[:surplus]:
            del self._workers[worker.name]
        missing = spec.replicas - len(self._of(spec.name))
        open_ones = [one for one in self._machines() if one.uid not in self.node_operations.cordoned]
        if missing > 0 and not open_ones:
            raise CannotRun("The only machine is cordoned.")
        free = (name for number in count() if (name := f"{spec.name}-{number}") not in self._workers)
        for name in islice(free, max(0, missing)):
            self._start(spec, name, open_ones[0])

    def files_reason(self, spec: DeploymentSpec) -> str:
        return ""

    def remove(self, deployment: str, *, fence: Fence) -> None:
        self._answer()
        held = self._guard(deployment, fence)
        if held is None:
            return
        self._deployments[deployment] = _AppliedDeployment(held.spec, fence, removed=True)
        for worker in self._of(deployment):
            del self._workers[worker.name]

    def observe(self, deployment: str) -> tuple[ObservedWorker, ...]:
        self._answer()
        return self._of(deployment)

    def logs(self, worker: str, *, lines: int) -> str:
        self._answer()
        if worker not in self._logs:
            raise UnknownWorker(f"There is no log of a worker {worker}.")
        return "\n".join(self._logs[worker][-lines:])

    def nodes(self) -> tuple[ObservedNode | UnreadNode, ...]:
        self._answer()
        return self._machines()

    def _machines(self) -> tuple[ObservedNode, ...]:
        done = self.node_operations
        boot = f"boot-{done.reboots}" if done.reboots else NODE.boot_id
        first = replace(NODE, taints=tuple(sorted(done.taints)), boot_id=boot)
        return tuple(replace(one, cordon=done.cordoned.get(one.uid)) for one in (first, *self.more_machines))

    def pods(self) -> ObservedPods:
        self._answer()
        return ObservedPods(
            tuple(pod for one in self._machines() for pod in self.node_operations.pods(one.uid))
        )

    def health(self) -> ClusterHealth:
        return ClusterHealth(
            self.reachable, "The fake answers." if self.reachable else "The fake is out of reach."
        )

    def checks(self) -> tuple[ClusterCheck, ...]:
        health = self.health()
        if not health.ok:
            return (ClusterCheck("reachable", CheckResult.FAILED, health.detail),)
        return (ClusterCheck("reachable", CheckResult.PASSED, health.detail), *self.also_checked)

    def crash(self, worker: str, *, reason: str = "terminated by SIGKILL") -> None:
        """Its process ends and is started again."""
        before = self._workers[worker]
        self._workers[worker] = replace(
            before,
            pid=next(_pids),
            state=self.starts_as,
            restarts=before.restarts + 1,
            since=datetime.now(UTC),
            reason="" if self.starts_as == ObservedState.READY else f"It was restarted; before, {reason}.",
        )
        self._logs[worker].append(reason)

    def turn(self, worker: str, state: ObservedState, *, reason: str = "") -> None:
        """Let the worker be in that state."""
        pid = None if state == ObservedState.FAILED else self._workers[worker].pid or next(_pids)
        self._workers[worker] = replace(self._workers[worker], state=state, reason=reason, pid=pid)

    def spec(self, deployment: str) -> DeploymentSpec | None:
        """Return the spec that was applied last; None when it is unknown or removed."""
        held = self._deployments.get(deployment)
        return held.spec if held is not None and not held.removed else None

    def _answer(self) -> None:
        if not self.reachable:
            raise ClusterUnreachable("The fake is out of reach.")

    def _guard(self, deployment: str, fence: Fence) -> _AppliedDeployment | None:
        held = self._deployments.get(deployment)
        if held is not None and fence < held.fence:
            raise StaleDeploymentFence(f"{deployment} was set by {held.fence}, which is later than {fence}.")
        return held

    def _of(self, deployment: str) -> tuple[ObservedWorker, ...]:
        workers = [worker for name, worker in self._workers.items() if name.rpartition("-")[0] == deployment]
        return tuple(sorted(workers, key=lambda worker: (len(worker.name), worker.name)))

    def _start(self, spec: DeploymentSpec, name: str, node: ObservedNode = NODE) -> None:
        failure = spec.settings.get("fails")
        self._workers[name] = ObservedWorker(
            id=name,
            name=name,
            node=node.name,
            address="127.0.0.1",
            port=next(_ports),
            pid=None if failure else next(_pids),
            state=ObservedState.FAILED if failure else self.starts_as,
            since=datetime.now(UTC),
            reason=failure or "",
        )
        self._logs[name] = [f"{name} started", *([failure] if failure else [])]


def _lasting(spec: DeploymentSpec) -> DeploymentSpec:
    """Return the spec without what may change while its workers run on."""
    return replace(spec, replicas=0, scale_turn=None, leaves_scale=False, leaving=None, adapters={})


_worlds: dict[str, FakeClusterBackend] = {}


def connect(config: ClusterConfig) -> FakeClusterBackend:
    """The fake of the row's setting `world`, or of its name: it lives as long as the process."""
    if unknown := sorted(config.settings.keys() - {"world"}):
        raise Misconfigured(f"A fake cluster has no setting {unknown[0]}; it has world.")
    return _worlds.setdefault(str(config.settings.get("world", config.name)), FakeClusterBackend())
