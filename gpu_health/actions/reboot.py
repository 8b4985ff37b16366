"""Restart the machine. Another boot id, and that it is ready again, show that it was."""

from clusters.backends.node_operations import NodeCommand, OperationUnsupported
from gpu_health.actions.base import ActionTarget, restarted
from gpu_health.actions.provided import ProviderAction
from gpu_health.healing.facts import MachineWork, WorkProgress
from gpu_health.providers.base import Deed
from gpu_health.providers.configured import machine_provider

BY_PROVIDER = ProviderAction(Deed.REBOOT)


class Reboot:
    name = "reboot"

    def begin(self, target: ActionTarget, order: NodeCommand) -> None:
        try:
            target.operations.reboot(target.node.uid, order)
        except OperationUnsupported:
            if machine_provider() is None:
                raise
            BY_PROVIDER.begin(target, order)

    def look(self, target: ActionTarget, op_key: str) -> MachineWork:
        return restarted(target)

    def happened(self, target: ActionTarget, order: NodeCommand) -> bool | None:
        if restarted(target).progress is WorkProgress.SUCCEEDED:
            return True
        if machine_provider() is not None:
            return BY_PROVIDER.happened(target, order)
        # The machine remembers op_keys: a second order under the same one is none.
        return False
