"""Workers on the GPU end and start again: no quarantine, nothing is drained."""

from clusters.backends.node_operations import NotPossible, Order
from gpu_health.actions.base import Target
from gpu_health.healing.facts import Progress, Work


class RestartApp:
    name = "restart_app"

    def begin(self, target: Target, order: Order) -> None:
        raise NotPossible("Slipway does not restart applications by itself: their owner does.")

    def look(self, target: Target, op_key: str) -> Work:
        return Work(Progress.IMPOSSIBLE, "Slipway does not restart applications by itself: their owner does.")

    def happened(self, target: Target, order: Order) -> bool | None:
        return False
