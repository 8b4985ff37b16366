"""A worker of ours on the GPU ends and starts again: no quarantine, nothing else is drained.

Which one holds the GPU is known on one machine by the process that the driver names, and elsewhere where only
one pod with GPUs stands on the machine. Whoever else holds it is their owner's to restart.
"""

from clusters.backends.kinds import abilities_of
from clusters.backends.node_operations import NodeCommand, OperationUnsupported
from clusters.backends.observed_pods import ObservedPod
from clusters.models import Worker
from gpu_health.actions.base import ActionTarget
from gpu_health.healing.facts import MachineWork, WorkProgress
from gpu_health.models import StoredReading


class RestartApp:
    name = "restart_app"

    def begin(self, target: ActionTarget, order: NodeCommand) -> None:
        pod = application_on(target)
        answer = target.operations.evict(target.node.uid, pod, order)
        if not answer.is_accepted:
            raise OperationUnsupported(f"{pod.title} cannot be restarted now: {answer.blocked_by}")

    def look(self, target: ActionTarget, op_key: str) -> MachineWork:
        return MachineWork(
            WorkProgress.SUCCEEDED, "The worker on the GPU was asked to end; it is started anew."
        )

    def happened(self, target: ActionTarget, order: NodeCommand) -> bool | None:
        if not _process(target):
            return None  # the one pod that stands there may be the former one, or that in its place
        try:
            application_on(target)
        except OperationUnsupported:
            return True
        return False


def application_on(target: ActionTarget) -> ObservedPod:
    """Raises OperationUnsupported where nobody knows it, or it is not ours."""
    pods = [
        one
        for one in target.operations.pods(target.node.uid)
        if (one.has_gpu or one.deployment) and not (one.has_ended or one.is_daemon or one.is_leaving)
    ]
    if pid := _process(target):
        names = set(Worker.objects.filter(node=target.node, pid=pid).values_list("name", flat=True))
        pods = [one for one in pods if one.name in names]
        if not pods:
            raise OperationUnsupported(f"No worker of Slipway has the process {pid} that the driver names.")
    if len(pods) != 1:
        told = f"{len(pods)} pods with GPUs" if pods else "No pod with GPUs"
        raise OperationUnsupported(f"{told} on the machine: nobody can say which one to restart.")
    if not pods[0].deployment:
        raise OperationUnsupported(f"{pods[0].title} is not Slipway's: its owner restarts it.")
    return pods[0]


def _process(target: ActionTarget) -> int:
    """Return the process that the driver names; 0: not known, or the cluster does not run on a host."""
    if not abilities_of(target.node.cluster.kind).runs_on_host:
        return 0
    incident = target.incident
    rows = StoredReading.objects.filter(node=target.node, fault=incident.fault).order_by("-at", "-pk")
    named = next((str(row.details["pid"]) for row in rows[:20] if row.details.get("pid")), "")
    return int(named) if named.isdecimal() else 0
