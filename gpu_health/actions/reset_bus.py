"""Reset a GPU through its PCI bus, which takes its neighbours along."""

from collections.abc import Sequence
from dataclasses import dataclass

from clusters.backends.node_operations import NodeCommand, OperationUnsupported
from gpu_health.actions.base import ActionTarget, Command, JobAction
from gpu_health.actions.holders import started, stopped


@dataclass(frozen=True, slots=True)
class ResetBus(JobAction):
    def begin(self, target: ActionTarget, order: NodeCommand) -> None:
        if ":" not in target.incident.device:
            raise OperationUnsupported("Nobody knows on which bus the GPU is.")
        super(ResetBus, self).begin(target, order)

    def commands_for(self, target: ActionTarget) -> Sequence[Command]:
        device = f"/sys/bus/pci/devices/{target.incident.device}.0"
        return (
            *stopped(target.incident.device),
            Command(("sh", "-c", f"echo bus > {device}/reset_method"), may_fail=True),
            Command(("sh", "-c", f"echo 1 > {device}/reset"), seconds=300),
            *started(),
            Command(("nvidia-smi", "-L")),
        )
