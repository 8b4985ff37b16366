"""Restart what runs beside the driver: daemons of the machine, and the container of the device plugin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusters.backends.node_operations import NodeCommand, OperationUnsupported
from gpu_health.actions.base import ActionTarget, Command, JobAction

DAEMONS: Mapping[str, str] = {
    "clock": "chronyd",
    "kubelet": "kubelet",
    "container": "containerd",
    "runtime": "containerd",
}
"""By a word of the fault's name."""

NEEDS_NVSWITCH = (
    "ls /proc/driver/nvidia-nvswitch/devices/* >/dev/null 2>&1 || nvidia-smi -q | grep -A 2 Fabric | "
    "grep -Eq 'State *: *(In Progress|Completed)' || { echo 'The machine has no NVSwitch.'; exit 1; }"
)
"""From the third generation on, switches are no PCI devices: the state of the fabric tells of them."""
RESTART_FABRIC_MANAGER = JobAction(
    "restart_fabric_manager",
    (Command(("sh", "-c", NEEDS_NVSWITCH)), Command(("systemctl", "restart", "nvidia-fabricmanager"))),
)
RECOVER_IMEX = JobAction("recover_imex", (Command(("systemctl", "restart", "nvidia-imex")),))
ENABLE_PERSISTENCE = JobAction("enable_persistence", (Command(("nvidia-smi", "-pm", "1")),))
RESTART_DEVICE_PLUGIN = JobAction(
    "restart_device_plugin",
    # Its DaemonSet has the kubelet start the container again.
    (
        Command(
            (
                "sh",
                "-c",
                "crictl ps -q --name nvidia-device-plugin | xargs -r crictl stop",
            )
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class RestartDaemon(JobAction):
    def begin(self, target: ActionTarget, order: NodeCommand) -> None:
        if not self.commands_for(target):
            raise OperationUnsupported(f"Nobody knows which daemon {target.incident.fault} is about.")
        super(RestartDaemon, self).begin(target, order)

    def commands_for(self, target: ActionTarget) -> Sequence[Command]:
        words = set(target.incident.fault.replace("_", ".").split("."))
        daemon = next((unit for word, unit in DAEMONS.items() if word in words), "")
        return (Command(("systemctl", "restart", daemon)),) if daemon else ()
