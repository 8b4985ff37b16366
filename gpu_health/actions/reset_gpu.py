"""Reset one GPU, once nobody holds it open."""

from collections.abc import Sequence
from dataclasses import dataclass

from clusters.backends.node_operations import NodeCommand, OperationUnsupported
from gpu_health.actions.base import ActionTarget, Command, JobAction
from gpu_health.actions.holders import started, stopped


@dataclass(frozen=True, slots=True)
class ResetGpu(JobAction):
    def begin(self, target: ActionTarget, order: NodeCommand) -> None:
        if not (target.incident.gpu_uuid or target.incident.device):
            raise OperationUnsupported("Nobody knows which GPU is to be reset.")
        super(ResetGpu, self).begin(target, order)

    def commands_for(self, target: ActionTarget) -> Sequence[Command]:
        gpu = target.incident.gpu_uuid or target.incident.device
        reset = Command(("nvidia-smi", "--gpu-reset", "-i", gpu), seconds=300)
        return (*stopped(gpu), reset, *started())
