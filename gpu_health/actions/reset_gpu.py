"""Reset one GPU. Whoever holds it open must leave first: DCGM and its exporter are stopped, and come back.

What the GPU operator runs in containers is waited for, and not stopped: nothing is reset while it holds the
GPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from clusters.backends.node_operations import NotPossible, Order
from gpu_health.actions.base import Command, JobAction, Target

UNHELD = """
minor=$(nvidia-smi -i "$0" -q | sed -n 's/^ *Minor Number *: *//p')
for _ in $(seq 30); do
  held=$(find /proc/[0-9]*/fd -lname "/dev/nvidia$minor" 2>/dev/null | cut -d/ -f3 | sort -un)
  [ -n "$held" ] || exit 0
  sleep 2
done
for pid in $held; do names="$names $(cat "/proc/$pid/comm" 2>/dev/null) ($pid)"; done
echo "The GPU is still held by:$names"
exit 1
"""
"""Takes the GPU. Ends well once no process has it open, or where nobody can see that: the driver refuses to
reset a GPU that is held."""
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
            Command(("sh", "-c", UNHELD, gpu)),
            Command(("nvidia-smi", "--gpu-reset", "-i", gpu), seconds=300),
            *(Command(("systemctl", "start", one), may_fail=True, always=True) for one in HOLDERS),
        )
