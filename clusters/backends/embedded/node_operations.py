"""Operations on this machine. A file, which outlives every process, says who placed what on it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clusters.backends.base import (
    ClusterUnreachable,
    CordonMark,
    DeploymentSpec,
    GpuSharingMode,
    ObservedNode,
    StaleDeploymentFence,
)
from clusters.backends.embedded.desired import DesiredStore, WorkerSlot
from clusters.backends.embedded.machine import bare_machine, gpus, machine_id, machine_name
from clusters.backends.embedded.mps import CONTROL, MpsControl, MpsFailed
from clusters.backends.node_operations import (
    CordonedByOther,
    Eviction,
    NodeCommand,
    OperationUnsupported,
    UnknownNode,
    is_overtaken,
)
from clusters.backends.observed_pods import ObservedPod, PodPhase
from clusters.backends.placement import Taint, TaintEffect
from clusters.backends.supervisor_rpc import (
    ObservedProcess,
    ProcessState,
    Supervisor,
    SupervisorFault,
    SupervisorUnreachable,
)
from common import files
from common.fence import Fence
from common.jobs.runners.base import JobRunner
from common.jobs.spec import JobSpec

NOBODY = Fence(0, 0)
KEEPS_OFF = (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)


@dataclass(frozen=True, slots=True)
class Marks:
    """Marks that Slipway has placed on this machine."""

    fence: Fence = NOBODY
    cordon: CordonMark | None = None
    taints: tuple[Taint, ...] = ()

    def on(self, machine: ObservedNode) -> ObservedNode:
        return replace(machine, cordon=self.cordon, taints=self.taints)

    def why_closed_to(self, spec: DeploymentSpec) -> str:
        """Why no new worker of the deployment is placed here; empty when it may be."""
        if self.cordon:
            reason = f": {self.cordon.reason.rstrip('.')}" if self.cordon.reason else ""
            return f"This machine was cordoned by {self.cordon.by}{reason}. It gets no new workers."
        for taint in self.taints:
            tolerated = any(one.covers(taint) for one in spec.placement.tolerations)
            if taint.effect in KEEPS_OFF and not tolerated:
                return f"This machine has the taint {taint.key}, which {spec.name} does not tolerate."
        return ""


class MarksFile:
    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Marks:
        try:
            document = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return Marks()
        held = document["cordon"]
        cordon = (
            CordonMark(held["by"], held["reason"], datetime.fromisoformat(held["since"])) if held else None
        )
        return Marks(
            Fence(*document["fence"]),
            cordon,
            tuple(Taint(one["key"], TaintEffect(one["effect"]), one["value"]) for one in document["taints"]),
        )

    def write(self, marks: Marks) -> None:
        document: dict[str, Any] = asdict(marks)
        if marks.cordon and marks.cordon.since:
            document["cordon"]["since"] = marks.cordon.since.isoformat()
        files.replace(self._path, json.dumps(document).encode())


class EmbeddedNodeOperations:
    """A NodeOperations for the one machine that there is."""

    def __init__(
        self,
        marks: MarksFile,
        desired: DesiredStore,
        supervisor: Supervisor,
        job_runner: Callable[[], JobRunner],
    ) -> None:
        """`job_runner`: made when it is needed, for whoever only restores workers has no settings."""
        self._marks = marks
        self._desired = desired
        self._supervisor = supervisor
        self._job_runner = job_runner

    def cordon(self, node: str, order: NodeCommand, taint: Taint | None = None) -> None:
        def change(marks: Marks) -> Marks:
            if marks.cordon and marks.cordon.by != order.by:
                raise CordonedByOther(f"{marks.cordon.by} has cordoned this machine already.")
            cordon = marks.cordon or CordonMark(order.by, order.reason, datetime.now(UTC))
            marks = replace(marks, cordon=cordon)
            return replace(marks, taints=_with(marks, taint)) if taint else marks

        self._change(node, order, change)

    def uncordon(self, node: str, order: NodeCommand) -> None:
        def change(marks: Marks) -> Marks:
            if marks.cordon and marks.cordon.by != order.by:
                raise CordonedByOther(
                    f"{marks.cordon.by} has cordoned this machine: it is theirs to uncordon."
                )
            return replace(marks, cordon=None)

        self._change(node, order, change)

    def taint(self, node: str, taint: Taint, order: NodeCommand) -> None:
        self._change(node, order, lambda marks: replace(marks, taints=_with(marks, taint)))

    def untaint(self, node: str, taint: Taint, order: NodeCommand) -> None:
        self._change(node, order, lambda marks: replace(marks, taints=_without(marks, taint)))

    def look(self, node: str) -> ObservedNode:
        _known(node)
        return self._marks.read().on(bare_machine())

    def pods(self, node: str) -> tuple[ObservedPod, ...]:
        """The workers: what else runs on this machine is no business of ours."""
        _known(node)
        with _asking():
            processes = self._supervisor.processes()
        found = []
        for desired in self._desired.load_all():
            for ordinal, slot in desired.slots.items():
                process = processes.get(f"{desired.spec.name}-{ordinal}")
                if process is not None and process.state != ProcessState.STOPPED:
                    found.append(_standing(desired.spec, process, slot))
        return tuple(found)

    def ask_checkpoint(self, node: str, pod: ObservedPod, order: NodeCommand) -> None:
        raise OperationUnsupported("Processes of one machine are not asked for checkpoints.")

    def evict(
        self,
        node: str,
        pod: ObservedPod,
        order: NodeCommand,
        *,
        grace_seconds: int | None = None,
        past_budgets: bool = False,
    ) -> Eviction:
        self._change(node, order, lambda marks: marks)
        deployment = pod.name.rpartition("-")[0]
        with self._desired.lock():
            # A program that is no worker, the gateway say, is no business of ours.
            if deployment and self._desired.load(deployment):
                with _asking():
                    self._supervisor.remove(pod.name)
        return Eviction(is_accepted=True)

    def run_job(self, node: str, job: JobSpec, order: NodeCommand) -> None:
        with self._ordered(node, order):
            self._job_runner().start(job)

    def jobs(self, node: str) -> JobRunner:
        _known(node)
        return self._job_runner()

    def pause_operands(self, node: str, order: NodeCommand) -> None:
        self._change(node, order, lambda marks: marks)

    def resume_operands(self, node: str, order: NodeCommand) -> None:
        self._change(node, order, lambda marks: marks)

    def set_mig_config(self, node: str, config: str, order: NodeCommand) -> None:
        _known(node)
        raise OperationUnsupported("There is no MIG manager: it runs in Kubernetes, by the GPU operator.")

    def set_label(self, node: str, label: str, value: str | None, order: NodeCommand) -> None:
        _known(node)
        raise OperationUnsupported("Slipway runs on this machine itself, which has no labels.")

    def set_mps_shares(self, node: str, shares: int, order: NodeCommand) -> None:
        """Every CUDA process that starts later becomes a client, for the daemon is that of the machine."""
        with self._ordered(node, order):
            if MpsControl.program() is None:
                raise OperationUnsupported(
                    f"This machine has no {CONTROL}, which comes with NVIDIA's driver: MPS cannot be had."
                )
            if self.mps_shares(node) == shares:
                return
            try:
                _divide_by_mps(shares)
            except MpsFailed as error:
                raise ClusterUnreachable(str(error)) from None

    def mps_shares(self, node: str) -> int:
        _known(node)
        control = MpsControl()
        if control.program() is None or not control.is_running():
            return 0
        try:
            return round(100 / control.default_threads())
        except MpsFailed as error:
            raise ClusterUnreachable(str(error)) from None

    def reboot(self, node: str, order: NodeCommand) -> None:
        _known(node)
        raise OperationUnsupported(
            "Slipway runs on this machine itself and would end with it: restart it by hand. Its workers "
            "come back with it."
        )

    def _change(self, node: str, order: NodeCommand, change: Callable[[Marks], Marks]) -> None:
        with self._ordered(node, order) as marks:
            self._marks.write(change(marks))

    @contextmanager
    def _ordered(self, node: str, order: NodeCommand) -> Iterator[Marks]:
        """Lock and return the machine's marks for an order that none has overtaken."""
        _known(node)
        with self._desired.lock():
            marks = self._marks.read()
            if is_overtaken(order.fence, marks.fence):
                raise StaleDeploymentFence(
                    f"This machine was set by {marks.fence}, which is later than {order.fence}."
                )
            marks = replace(marks, fence=order.fence)
            self._marks.write(marks)
            yield marks


def _divide_by_mps(shares: int) -> None:
    """Start the daemon with equal limits for all that come, or end it. Raises MpsFailed."""
    control = MpsControl()
    if not shares:
        control.end()
        return
    cards = gpus()
    if not cards:
        raise MpsFailed("nvidia-smi lists no GPU that MPS could divide.")
    if any(gpu.sharing == GpuSharingMode.MIG for gpu in cards):
        raise MpsFailed("MIG divides a GPU of this machine: make it whole first.")
    # Limits hold for servers that start later.
    control.end()
    control.start()
    control.set_defaults(100 / shares, {gpu.index: gpu.memory_bytes // 2**20 // shares for gpu in cards})


def _standing(spec: DeploymentSpec, process: ObservedProcess, slot: WorkerSlot) -> ObservedPod:
    return ObservedPod(
        uid=process.name,
        name=process.name,
        node=machine_name(),
        phase=PodPhase.RUNNING if process.pid else PodPhase.PENDING,
        owner=f"Deployment {spec.name}",
        deployment=spec.name,
        gpus={"gpu": len(slot.gpus)} if slot.gpus else {},
        is_leaving=process.state == ProcessState.STOPPING,
    )


@contextmanager
def _asking() -> Iterator[None]:
    try:
        yield
    except (SupervisorFault, SupervisorUnreachable) as error:
        raise ClusterUnreachable(str(error)) from None


def _with(marks: Marks, taint: Taint) -> tuple[Taint, ...]:
    return tuple(sorted((*_without(marks, taint), taint)))


def _without(marks: Marks, taint: Taint) -> tuple[Taint, ...]:
    return tuple(one for one in marks.taints if (one.key, one.effect) != (taint.key, taint.effect))


def _known(node: str) -> None:
    if node != machine_id():
        raise UnknownNode(f"This cluster has one machine, and its uid is not {node}.")
