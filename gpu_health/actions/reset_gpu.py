"""Reset one GPU. Whoever holds it open must leave first: DCGM and its exporter are stopped, and come back."""

from collections.abc import Sequence
from dataclasses import dataclass

from clusters.backends.node_operations import NotPossible, Order
from gpu_health.actions.base import Command, JobAction, Target

HOLDERS = ("nvidia-dcgm", "dcgm-exporter", "nvidia-persistenced")


@dataclass(frozen=True, slots=True)
class ResetGpu(JobAction):
    def begin(self, target: Target, order: Order) -> None:
        if not (target.incident.gpu_uuid or target.incident.device):
            raise NotPossible("Nobody knows which GPU is to be reset.")
        super(ResetGpu, self).begin(target, order)

    def commands_for(self, target: Target) -> Sequence[Command]:
        gpu = target.incident.gpu_uuid or target.incident.device
        return (
            *(Command(("systemctl", "stop", one), may_fail=True) for one in HOLDERS),
            Command(("nvidia-smi", "--gpu-reset", "-i", gpu), seconds=300),
            *(Command(("systemctl", "start", one), may_fail=True, always=True) for one in HOLDERS),
        )
