"""Every kind of action that something can be done about."""

from collections.abc import Mapping

from clusters.backends.node_operations import NodeCommand, OperationUnsupported
from gpu_health.actions.base import ActionKind, Target
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
from gpu_health.healing.facts import Progress, Work
from gpu_health.models import Incident
from gpu_health.policy.rule import Action
from gpu_health.providers.base import Deed


class Unavailable:
    """Nothing that Slipway can do there."""

    def __init__(self, words: str) -> None:
        self.words = words

    def begin(self, target: Target, order: NodeCommand) -> None:
        raise OperationUnsupported(self.words)

    def look(self, target: Target, op_key: str) -> Work:
        return Work(Progress.IMPOSSIBLE, self.words)

    def happened(self, target: Target, order: NodeCommand) -> bool | None:
        return False


KINDS: Mapping[Action, ActionKind] = {
    Action.RESTART_APP: RestartApp(),
    Action.RESTART_DAEMON: RestartDaemon("restart_daemon"),
    Action.RESTART_FABRIC_MANAGER: RESTART_FABRIC_MANAGER,
    Action.RESTART_DEVICE_PLUGIN: RESTART_DEVICE_PLUGIN,
    Action.ENABLE_PERSISTENCE: ENABLE_PERSISTENCE,
    Action.RECOVER_IMEX: RECOVER_IMEX,
    Action.RESET_GPU: ResetGpu("reset_gpu"),
    Action.RESET_BUS: ResetBus("reset_bus"),
    Action.RESTART_DRIVER: RESTART_DRIVER,
    Action.REBOOT: Reboot(),
    Action.POWER_CYCLE: ProviderAction(Deed.POWER_CYCLE),
    Action.REPLACE: ProviderAction(Deed.REPLACE),
}


WHY_NOT: Mapping[Action, str] = {
    Action.WITHDRAW_GPU: "One GPU of a running machine cannot be withdrawn from outside: Kubernetes leaves "
    "that to the device plugin, which withdraws a GPU that it sees as unhealthy.",
    Action.DRAIN_P2P: "Traffic between GPUs cannot be drained from outside while their applications run.",
}
"""Of actions for which no cluster has a way."""


def kind_of(action: Action) -> ActionKind:
    words = WHY_NOT.get(action, f"Slipway cannot {action} a machine here.")
    return KINDS.get(action) or Unavailable(words)


def kind_for(incident: Incident) -> ActionKind:
    """Of its present action. In a drill no action touches the machine."""
    action = Action(incident.action)
    if incident.drill_id is not None:
        return PlayedAction(str(action))
    return kind_of(action)
