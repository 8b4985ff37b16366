"""What clusters show of their machines is read as they are seen."""

from datetime import timedelta

from clusters.backends.kinds import KINDS_TELLING_CONDITIONS
from clusters.models import Cluster
from common.reconcile import Effect, Operation, Recurring
from gpu_health.models import EventReader, SignalReader
from gpu_health.services.missing_gpus import report_missing
from gpu_health.services.node_signals import AT_ONCE, read_events, read_node, unread_nodes


class SignalReconciler(Recurring[SignalReader]):
    """Conditions of nodes, and GPUs that are missing or not allocatable, become readings."""

    name = "read nodes"
    model = SignalReader
    effect = Effect.ABSOLUTE
    every = timedelta(seconds=2)

    def act(self, row: SignalReader, operation: Operation) -> None:
        for node in unread_nodes(operation.at)[:AT_ONCE]:
            read_node(node, operation.at)
        report_missing(operation.at)


class ClusterEventReconciler(Recurring[EventReader]):
    """Events that clusters tell of their machines become readings."""

    name = "read events"
    model = EventReader
    effect = Effect.ABSOLUTE
    every = timedelta(seconds=10)

    def act(self, row: EventReader, operation: Operation) -> None:
        for cluster in Cluster.objects.present().filter(kind__in=KINDS_TELLING_CONDITIONS, problem=""):
            read_events(cluster, operation.at)
