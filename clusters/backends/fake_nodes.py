"""The machine of the cluster in memory, and what is done to it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from clusters.backends.base import (
    CordonMark,
    NodeCondition,
    ObservedGpu,
    ObservedNode,
    ObservedState,
    StaleDeploymentFence,
)
from clusters.backends.node_operations import (
    MIG_CONFIG,
    MIG_STATE,
    CordonedByOther,
    Eviction,
    NodeCommand,
    UnknownNode,
    is_overtaken,
)
from clusters.backends.observed_pods import DisruptionBudget, ObservedPod
from clusters.backends.placement import Taint
from common.fence import Fence
from common.jobs.runners.base import JobRunner
from common.jobs.runners.fake import FakeRunner
from common.jobs.spec import JobSpec

if TYPE_CHECKING:
    from clusters.backends.fake import FakeClusterBackend

NODE = ObservedNode(
    uid="fake-node-uid",
    name="fake-node",
    address="127.0.0.1",
    cpu_count=8,
    memory_bytes=32 * 2**30,
    boot_id="first-boot",
    labels={"kubernetes.io/hostname": "fake-node"},
    conditions=(NodeCondition("Ready", "True"),),
    gpus=(ObservedGpu(uuid="GPU-fake", index=0, name="Fake GPU", memory_bytes=80 * 2**30),),
)


class FakeNodeOperations:
    """A NodeOperations; `budgets` are those of deployments that let no worker go, with the reason."""

    def __init__(self, cluster: "FakeClusterBackend") -> None:
        self.cordoned: dict[str, CordonMark] = {}
        self.taints: set[Taint] = set()
        self.budgets: dict[str, str] = {}
        self.others: list[ObservedPod] = []
        """Pods of the machine that are none of ours."""
        self.evictions: list[tuple[str, int | None]] = []
        """What was asked to leave, with its grace time."""
        self.checkpoints_asked: list[str] = []
        self.drains_at_once = True
        self.has_operands_paused = False
        """Those of the GPU operator, which hold its GPUs otherwise."""
        self.mig_labels: dict[str, str] = {}
        """Written by MIG manager, with `mig_state` as soon as it is asked."""
        self.mig_state = "success"
        self.mps = 0
        self.reboots = 0
        self.job_runner = FakeRunner()
        self._rebooted_by: set[str] = set()
        self._fence = Fence(0, 0)
        self._cluster = cluster

    def cordon(self, node: str, order: NodeCommand, taint: Taint | None = None) -> None:
        self._guard(node, order)
        held = self.cordoned.get(node)
        if held is not None and held.by != order.by:
            raise CordonedByOther(f"{held.by} has cordoned {node} already.")
        self.cordoned[node] = held or CordonMark(order.by, order.reason, datetime.now(UTC))
        if taint is not None:
            self.taint(node, taint, order)

    def uncordon(self, node: str, order: NodeCommand) -> None:
        self._guard(node, order)
        held = self.cordoned.get(node)
        if held is not None and held.by != order.by:
            raise CordonedByOther(f"{held.by} has cordoned {node}.")
        self.cordoned.pop(node, None)

    def taint(self, node: str, taint: Taint, order: NodeCommand) -> None:
        self.untaint(node, taint, order)
        self.taints.add(taint)

    def untaint(self, node: str, taint: Taint, order: NodeCommand) -> None:
        self._guard(node, order)
        self.taints = {one for one in self.taints if (one.key, one.effect) != (taint.key, taint.effect)}

    def look(self, node: str) -> ObservedNode:
        found = self._known(node)
        return replace(found, labels={**found.labels, **self.mig_labels})

    def pods(self, node: str) -> tuple[ObservedPod, ...]:
        machine = self._known(node)
        ours = (
            ObservedPod(
                uid=worker.id,
                name=worker.name,
                node=worker.node,
                owner=f"Deployment {worker.name.rpartition('-')[0]}",
                deployment=worker.name.rpartition("-")[0],
                gpus={"gpu": 1},
                is_leaving=worker.state == ObservedState.DRAINING,
                budgets=self._budgets_of(worker.name),
            )
            for worker in self._cluster._workers.values()
            if worker.node == machine.name
        )
        return (*ours, *(one for one in self.others if (one.node or NODE.name) == machine.name))

    def ask_checkpoint(self, node: str, pod: ObservedPod, order: NodeCommand) -> None:
        self._guard(node, order)
        self.checkpoints_asked.append(pod.name)

    def evict(
        self,
        node: str,
        pod: ObservedPod,
        order: NodeCommand,
        *,
        grace_seconds: int | None = None,
        past_budgets: bool = False,
    ) -> Eviction:
        self._guard(node, order)
        self.evictions.append((pod.name, grace_seconds))
        if self._budgets_of(pod.name) and not past_budgets:
            return Eviction(False, self.budgets[pod.name.rpartition("-")[0]], timedelta(seconds=10))
        if self.drains_at_once:
            self._cluster._workers.pop(pod.uid, None)
            self.others = [one for one in self.others if one.uid != pod.uid]
        elif pod.uid in self._cluster._workers:
            self._cluster.turn(pod.uid, ObservedState.DRAINING)
        return Eviction(True)

    def _budgets_of(self, name: str) -> tuple[DisruptionBudget, ...]:
        why = self.budgets.get(name.rpartition("-")[0])
        return (DisruptionBudget(why, allowed=0),) if why else ()

    def run_job(self, node: str, job: JobSpec, order: NodeCommand) -> None:
        self._guard(node, order)
        self.job_runner.start(job)

    def jobs(self, node: str) -> JobRunner:
        self._known(node)
        return self.job_runner

    def pause_operands(self, node: str, order: NodeCommand) -> None:
        self._guard(node, order)
        self.has_operands_paused = True

    def resume_operands(self, node: str, order: NodeCommand) -> None:
        self._guard(node, order)
        self.has_operands_paused = False

    def set_mig_config(self, node: str, config: str, order: NodeCommand) -> None:
        self._guard(node, order)
        self.mig_labels = {MIG_CONFIG: config, MIG_STATE: self.mig_state}

    def set_label(self, node: str, label: str, value: str | None, order: NodeCommand) -> None:
        self._guard(node, order)
        self.mig_labels.pop(label, None)
        self.mig_labels |= {label: value} if value else {}

    def set_mps_shares(self, node: str, shares: int, order: NodeCommand) -> None:
        self._guard(node, order)
        self.mps = shares

    def mps_shares(self, node: str) -> int:
        self._known(node)
        return self.mps

    def reboot(self, node: str, order: NodeCommand) -> None:
        self._guard(node, order)
        if order.op_key not in self._rebooted_by:
            self._rebooted_by.add(order.op_key)
            self.reboots += 1

    def _known(self, node: str) -> ObservedNode:
        self._cluster._answer()
        for one in self._cluster._machines():
            if one.uid == node:
                return one
        raise UnknownNode(f"The fake has no machine {node}.")

    def _guard(self, node: str, order: NodeCommand) -> None:
        self._known(node)
        if is_overtaken(order.fence, self._fence):
            raise StaleDeploymentFence(
                f"{node} was changed by {self._fence}, which is later than {order.fence}."
            )
        self._fence = order.fence
