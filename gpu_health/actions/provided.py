"""What only the provider of a machine can do: power cycle, replacement, reboots that nobody else can."""

from dataclasses import dataclass

from clusters.backends.node_operations import NodeCommand, OperationUnsupported
from gpu_health.actions.base import ActionTarget, restarted
from gpu_health.healing.facts import MachineWork, WorkProgress
from gpu_health.providers.base import Deed, DeedState, DeedStatus, MachineProvider, ProviderMachine
from gpu_health.providers.configured import machine_provider

PROGRESS = {
    DeedState.NEVER: WorkProgress.RUNNING,
    DeedState.RUNNING: WorkProgress.RUNNING,
    DeedState.UNKNOWN: WorkProgress.RUNNING,
    DeedState.DONE: WorkProgress.SUCCEEDED,
    DeedState.FAILED: WorkProgress.FAILED,
}


@dataclass(frozen=True, slots=True)
class ProviderAction:
    deed: Deed

    @property
    def name(self) -> str:
        return str(self.deed)

    def begin(self, target: ActionTarget, order: NodeCommand) -> None:
        provider = self._provider()
        told = provider.order(self.deed, machine_of(target), order.op_key, order.reason)
        if told.state is DeedState.FAILED:
            raise OperationUnsupported(f"The provider refuses: {told.words}")

    def look(self, target: ActionTarget, op_key: str) -> MachineWork:
        # A machine that runs anew has been switched off and on, whatever else is told of it.
        if self.deed is not Deed.REPLACE and (seen := restarted(target)).progress is WorkProgress.SUCCEEDED:
            return seen
        return self._work(self._provider().status(self.deed, machine_of(target), op_key))

    def happened(self, target: ActionTarget, order: NodeCommand) -> bool | None:
        if self.deed is not Deed.REPLACE and restarted(target).progress is WorkProgress.SUCCEEDED:
            return True
        told = self._provider().status(self.deed, machine_of(target), order.op_key)
        if told.state is DeedState.UNKNOWN:
            return None
        return told.state is not DeedState.NEVER

    def _work(self, told: DeedStatus) -> MachineWork:
        if self.deed is Deed.REPLACE or told.state in (DeedState.FAILED, DeedState.UNKNOWN):
            return MachineWork(PROGRESS[told.state], told.words or f"The provider: {told.state}.")
        # Done, says the provider; it has been when the machine runs anew.
        return MachineWork(WorkProgress.RUNNING, told.words or "The machine has not restarted yet.")

    def _provider(self) -> MachineProvider:
        provider = machine_provider()
        if provider is None:
            raise OperationUnsupported(f"No provider of machines is configured: nobody can {self.deed} one.")
        return provider


def machine_of(target: ActionTarget) -> ProviderMachine:
    node = target.node
    return ProviderMachine(
        name=node.name,
        uid=node.uid,
        provider_id=node.provider_id,
        address=node.address,
        cluster=node.cluster.name,
        provider=node.cluster.provider,
    )
