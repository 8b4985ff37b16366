"""Operations on a machine of a cluster, whoever asks for them: GPU health, or a person."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from clusters.backends.base import BackendError, ObservedNode
from clusters.backends.observed_pods import ObservedPod
from clusters.backends.placement import Taint
from common.fence import Fence
from common.jobs.runners.base import JobRunner
from common.jobs.spec import JobSpec

MIG_CONFIG, MIG_STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
"""Labels of a machine: the layout that MIG manager is to apply, and how far it is."""
WHOLE_CARDS = "all-disabled"


class UnknownNode(BackendError):
    """The cluster has no machine of this uid."""


class OperationUnsupported(BackendError):
    """This cluster cannot do that to a machine; the message says why, and what to do instead."""


class CordonedByOther(BackendError):
    """A person, or another part, did it: what they did is theirs to take back."""


@dataclass(frozen=True, slots=True)
class NodeCommand:
    """On whose behalf something is done. One `op_key` is one operation, however often it is ordered.

    The machine remembers the highest `fence` that came: whoever has a lower one of the same holder is refused
    with StaleDeploymentFence.
    """

    op_key: str
    fence: Fence
    by: str
    reason: str


def is_overtaken(fence: Fence, by: Fence | None) -> bool:
    """`by`: the one that a machine remembers. Another holder is another row: of another installation that
    knows the machine, or of a cluster that was added twice. Their numbers say nothing of one another.
    """
    return by is not None and fence.holder == by.holder and fence.turn < by.turn


@dataclass(frozen=True, slots=True)
class Eviction:
    """Answer to the request to evict a pod.

    `is_accepted`: it drains, or is gone already. Otherwise a disruption budget forbids it at the moment (429
    in Kubernetes): ask again after `retry_after`; nothing else may end it meanwhile.
    """

    is_accepted: bool
    blocked_by: str = ""
    retry_after: timedelta | None = None


class NodeOperations(Protocol):
    """Machines are named by their uid. Every method answers within seconds and can be repeated.

    Raises ClusterUnreachable, UnknownNode, StaleDeploymentFence, and OperationUnsupported where the cluster
    has no such thing.
    """

    def cordon(self, node: str, order: NodeCommand, taint: Taint | None = None) -> None:
        """No new worker is placed there; those that run stay. `nodes()` shows by whom and why. `taint`: is
        set with it, in one write.

        Raises CordonedByOther when another one has cordoned it: it is cordoned, and stays theirs.
        """

    def uncordon(self, node: str, order: NodeCommand) -> None:
        """Raises CordonedByOther when the cordon is not of `order.by`; none at all is no error."""

    def taint(self, node: str, taint: Taint, order: NodeCommand) -> None:
        """Workers that do not tolerate it keep off; one of the same key and effect is replaced."""

    def untaint(self, node: str, taint: Taint, order: NodeCommand) -> None:
        """Gone already is no error."""

    def look(self, node: str) -> ObservedNode:
        """The machine as it is now: a cordon, a taint or another `boot_id` shows that an order was
        done. Its GPUs need not be read.
        """

    def pods(self, node: str) -> tuple[ObservedPod, ...]:
        """All that stands on it, of others too, with the budgets that an eviction has to respect."""

    def ask_checkpoint(self, node: str, pod: ObservedPod, order: NodeCommand) -> None:
        """Tell a pod that wants it to keep its work, since it will be evicted; under the order's `by`.
        `pods()` shows when it has. One that is gone is no error.
        """

    def evict(
        self,
        node: str,
        pod: ObservedPod,
        order: NodeCommand,
        *,
        grace_seconds: int | None = None,
        past_budgets: bool = False,
    ) -> Eviction:
        """Let this pod of the machine drain and leave; no cordoned machine takes it back. Another one that
        has its name by now is left alone.

        `grace_seconds`: None: as long as it asks for itself. `past_budgets`: it is deleted, whatever its
        budgets say; never without its time to end.
        """

    def run_job(self, node: str, job: JobSpec, order: NodeCommand) -> None:
        """See to it that the job was started on this machine: at most once under its `op_key`, also after it
        has ended. `jobs` observes, stops and collects it. Raises NoRoomForJob.
        """

    def jobs(self, node: str) -> JobRunner:
        """The jobs of this machine. To start one takes an order: `run_job`."""

    def pause_operands(self, node: str, order: NodeCommand) -> None:
        """Stop the pods of the GPU operator that hold GPUs open (device plugin, DCGM, its exporter) until
        `resume_operands`. Those that are off, or paused by others, stay as they are; without the operator
        there is nothing to do.
        """

    def resume_operands(self, node: str, order: NodeCommand) -> None:
        """Resume all that was paused by `pause_operands`, whoever asked for it; nothing paused is no
        error.
        """

    def set_mig_config(self, node: str, config: str, order: NodeCommand) -> None:
        """Have MIG manager apply a layout of its configuration to all GPUs; `look` shows in `MIG_STATE` how
        far it is. Whoever asks has drained the machine: MIG manager does not look whether GPUs are in use.
        Raises OperationUnsupported where it does not run.
        """

    def set_label(self, node: str, label: str, value: str | None, order: NodeCommand) -> None:
        """Let the machine have this label; None: not have it. Raises OperationUnsupported where machines have
        no labels of ours."""

    def set_mps_shares(self, node: str, shares: int, order: NodeCommand) -> None:
        """Have CUDA MPS divide each GPU into so many equal shares, of its threads and memory; 0: undo it.
        Whoever asks has drained the machine; clients that are left are terminated before their daemon ends.
        Raises OperationUnsupported where MPS cannot be had.
        """

    def mps_shares(self, node: str) -> int:
        """Return the shares that each GPU has now; 0: MPS does not divide them."""

    def reboot(self, node: str, order: NodeCommand) -> None:
        """Irreversible: begun at most once for an `op_key`. Another `boot_id` shows that it has happened."""
