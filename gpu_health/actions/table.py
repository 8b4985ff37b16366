"""Every kind of action that something can be done about."""

from collections.abc import Mapping

from clusters.backends.node_operations import NodeCommand, OperationUnsupported
from gpu_health.actions.base import ActionKind, ActionTarget
from gpu_health.actions.provided import ProviderAction
from gpu_health.actions.reboot import Reboot
from gpu_health.actions.reset_bus import ResetBus
from gpu_health.actions.reset_gpu import ResetGpu
from gpu_health.actions.restart_app import RestartApp
from gpu_health.actions.restart_driver import RESTART_DRIVER
from gpu_health.actions.restart_services import (
    ENABLE_PERSISTENCE,
    RECOVER_IMEX,
    RESTART_DEVICE_PLUGIN,
    RESTART_FABRIC_MANAGER,
    RestartDaemon,
)
from gpu_health.drills.orders import PlayedAction
from gpu_health.healing.facts import MachineWork, WorkProgress
from gpu_health.models import Incident
from gpu_health.policy.rule import RemediationAction
from gpu_health.providers.base import Deed


class UnavailableAction:
    """Nothing that Slipway can do there."""

    def __init__(self, words: str) -> None:
        self.words = words

    def begin(self, target: ActionTarget, order: NodeCommand) -> None:
        raise OperationUnsupported(self.words)

    def look(self, target: ActionTarget, op_key: str) -> MachineWork:
        return MachineWork(WorkProgress.IMPOSSIBLE, self.words)

    def happened(self, target: ActionTarget, order: NodeCommand) -> bool | None:
        return False


KINDS: Mapping[RemediationAction, ActionKind] = {
    RemediationAction.RESTART_APP: RestartApp(),
    RemediationAction.RESTART_DAEMON: RestartDaemon("restart_daemon"),
    RemediationAction.RESTART_FABRIC_MANAGER: RESTART_FABRIC_MANAGER,
    RemediationAction.RESTART_DEVICE_PLUGIN: RESTART_DEVICE_PLUGIN,
    RemediationAction.ENABLE_PERSISTENCE: ENABLE_PERSISTENCE,
    RemediationAction.RECOVER_IMEX: RECOVER_IMEX,
    RemediationAction.RESET_GPU: ResetGpu("reset_gpu"),
    RemediationAction.RESET_BUS: ResetBus("reset_bus"),
    RemediationAction.RESTART_DRIVER: RESTART_DRIVER,
    RemediationAction.REBOOT: Reboot(),
    RemediationAction.POWER_CYCLE: ProviderAction(Deed.POWER_CYCLE),
    RemediationAction.REPLACE: ProviderAction(Deed.REPLACE),
}


WHY_NOT: Mapping[RemediationAction, str] = {
    RemediationAction.WITHDRAW_GPU: "One GPU of a running machine cannot be withdrawn from outside: "
    "Kubernetes leaves that to the device plugin, which withdraws a GPU that it sees as unhealthy.",
    RemediationAction.DRAIN_P2P: "Traffic between GPUs cannot be drained from outside while their "
    "applications run.",
}
"""Of actions for which no cluster has a way."""


def kind_of(action: RemediationAction) -> ActionKind:
    words = WHY_NOT.get(action, f"Slipway cannot {action} a machine here.")
    return KINDS.get(action) or UnavailableAction(words)


def kind_for(incident: Incident) -> ActionKind:
    """Return the kind of the incident's present action. In a drill no action touches the machine."""
    action = RemediationAction(incident.action)
    if incident.drill_id is not None:
        return PlayedAction(str(action))
    return kind_of(action)
