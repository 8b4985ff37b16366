"""Operations ordered for a machine, one at a time: its row is the fence of all who order."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from clusters.backends.base import (
    BackendError,
    ClusterBackend,
    ClusterUnreachable,
    Misconfigured,
    ObservedNode,
    StaleDeploymentFence,
)
from clusters.backends.configured import backend_of
from clusters.backends.node_operations import NodeCommand, NodeOperations, UnknownNode
from clusters.events import NodeCordoned, NodeUncordoned
from clusters.models import Cluster, Node
from clusters.reconcilers.inventory import cordon_columns
from clusters.services.lost_rights import why_unanswered
from clusters.services.node_orders import order_for
from clusters.states import NodeOperation
from common import audit, events
from common.actor import Actor
from common.errors import Unavailable
from common.live.touch import touch
from common.reconcile import Effect, LeaseLost, Operation, Reconciler, Step, StepOutcome, rest, wait

ACTOR = Actor.system("clusters")
LOOK_EVERY = timedelta(seconds=1)

ORDERS: Mapping[str, Callable[[NodeOperations, str, NodeCommand], object]] = {
    NodeOperation.CORDON: lambda operations, node, order: operations.cordon(node, order),
    NodeOperation.UNCORDON: lambda operations, node, order: operations.uncordon(node, order),
}
IS_DONE: Mapping[str, Callable[[ObservedNode], bool]] = {
    NodeOperation.CORDON: lambda seen: seen.cordon is not None,
    NodeOperation.UNCORDON: lambda seen: seen.cordon is None,
}
EVENTS: Mapping[str, Callable[[int], object]] = {
    NodeOperation.CORDON: NodeCordoned,
    NodeOperation.UNCORDON: NodeUncordoned,
}
NO_OPERATION: Mapping[str, Any] = {
    "operation": NodeOperation.NONE,
    "operation_by": "",
    "operation_reason": "",
}


class OperateNode(Step[Node]):
    name = "operate"
    effect = Effect.ABSOLUTE
    _refusal = ""

    def __init__(self, backend_of: Callable[[Cluster], ClusterBackend]) -> None:
        self.backend_of = backend_of

    def intent(self, row: Node) -> Mapping[str, Any]:
        return {"operation": row.operation, "by": row.operation_by, "reason": row.operation_reason}

    def act(self, row: Node, operation: Operation) -> None:
        # Whoever uncordons takes back the cordon that they saw, whosever it is.
        by = row.cordoned_by if row.operation == NodeOperation.UNCORDON else row.operation_by
        order = order_for(row, operation, node=row, by=by, reason=row.operation_reason)
        try:
            ORDERS[row.operation](self.backend_of(row.cluster).node_operations, row.uid, order)
        except StaleDeploymentFence:
            raise LeaseLost from None
        except (ClusterUnreachable, Misconfigured) as error:
            raise _away(row, error) from None
        except BackendError as error:
            self._refusal = str(error)

    def observe(self, row: Node, operation: Operation) -> ObservedNode | None:
        try:
            return self.backend_of(row.cluster).node_operations.look(row.uid)
        except UnknownNode:
            return None
        except (ClusterUnreachable, Misconfigured) as error:
            raise _away(row, error) from None

    def settle(self, row: Node, seen: ObservedNode | None, now: datetime) -> StepOutcome:
        cordon = cordon_columns(seen.cordon) if seen else {}
        if self._refusal:
            return self._refused(row, self._refusal, cordon)
        if seen is None:
            return self._refused(row, "The cluster has no such machine any more.", {})
        if not IS_DONE[row.operation](seen):
            return wait(LOOK_EVERY)

        def write() -> None:
            events.publish(EVENTS[row.operation](row.pk))
            touch("fleet")

        return rest(save={**NO_OPERATION, **cordon, "operation_problem": ""}, write=write)

    def _refused(self, row: Node, why: str, cordon: Mapping[str, Any]) -> StepOutcome:
        def write() -> None:
            audit.record(
                ACTOR,
                f"node.{row.operation}.refused",
                subject=row,
                reason=why,
                team_id=row.cluster.team_id,
            )
            touch("fleet")

        return rest(save={**NO_OPERATION, **cordon, "operation_problem": why}, write=write)


def _away(row: Node, error: BackendError) -> Unavailable:
    return Unavailable(why_unanswered(row.cluster, error))


class NodeReconciler(Reconciler[Node]):
    model = Node

    def __init__(self, backend_of: Callable[[Cluster], ClusterBackend] = backend_of) -> None:
        self.backend_of = backend_of

    def rows(self) -> QuerySet[Node]:
        return Node.objects.select_related("cluster")

    def lane_of(self, row: Node) -> str:
        return row.cluster.own_lane

    def host_of(self, row: Node) -> str:
        return row.cluster.host

    def next_step(self, row: Node, now: datetime) -> Step[Node] | None:
        return OperateNode(self.backend_of) if row.operation else None

    def on_stuck(self, row: Node, reason: str) -> Mapping[str, Any]:
        touch("fleet")
        return {"operation_problem": reason}
