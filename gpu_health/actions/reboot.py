"""Restart the machine. Another boot id, and that it is ready again, show that it was."""

from clusters.backends.node_operations import Order
from gpu_health.actions.base import Target
from gpu_health.healing.facts import Progress, Work


class Reboot:
    name = "reboot"

    def begin(self, target: Target, order: Order) -> None:
        target.operations.reboot(target.node.uid, order)

    def look(self, target: Target, op_key: str) -> Work:
        return restarted(target)

    def happened(self, target: Target, order: Order) -> bool | None:
        # The machine remembers op_keys: a second order under the same one is none.
        return restarted(target).progress is Progress.SUCCEEDED


def restarted(target: Target) -> Work:
    """Whether the machine runs anew since the incident's session."""
    before, seen = target.incident.session, target.seen
    if seen is None or not seen.boot_id or not before:
        return Work(Progress.RUNNING, "The machine is restarting.")
    if seen.boot_id == before:
        return Work(Progress.RUNNING, "The machine has not restarted yet.")
    if not seen.is_ready:
        return Work(Progress.RUNNING, "The machine has restarted and is not ready yet.")
    return Work(Progress.SUCCEEDED, "The machine was restarted and is ready.")
