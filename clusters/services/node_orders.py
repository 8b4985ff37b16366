"""Orders of kernel steps for a machine: all orders of one machine stand in one line.

The machine remembers the highest fence that came, so that whoever slept past their lease is refused there.
Orders come from rows of several kinds: the machine's own, drains, healing. So the place in the line is not
the fence of a row, but a number that the machine's row gives out, and only to those who hold their row.
"""

from django.db import transaction
from django.db.models import F
from django.utils.crypto import salted_hmac

from clusters.backends.node_operations import NodeCommand, NodeOperations
from clusters.models import Node
from common.fence import Fence
from common.reconcile import LeaseLost, Operation, Reconciled

HOLDER_DIGITS = 12
"""48 bits: no two that meet at one machine are the same."""


def order_for(
    row: Reconciled, operation: Operation, *, node: Node, by: str, reason: str, op_key: str = ""
) -> NodeCommand:
    """The next order of the machine, on behalf of a step of `row`; for `act`, which may begin it anew with
    another each time. `op_key`: default: the step's. Raises LeaseLost when the row was claimed anew since.
    """
    with transaction.atomic():
        # Writes nothing, and holds the row: nobody takes it over until the number is given out.
        held = type(row)._default_manager.filter(pk=row.pk, fence=operation.fence)
        if not held.update(fence=operation.fence):
            raise LeaseLost
        Node.objects.filter(pk=node.pk).update(orders=F("orders") + 1)
        turn = Node.objects.filter(pk=node.pk).values_list("orders", flat=True).get()
    return NodeCommand(op_key or operation.op_key, Fence(_holder(node), turn), by, reason)


def label_node(
    row: Reconciled,
    operation: Operation,
    *,
    node: Node,
    label: str,
    value: str,
    by: str,
    reason: str,
    operations: NodeOperations,
) -> None:
    """Give the machine a label, empty: take it away, on behalf of a step of `row`, and know of it at once.

    Raises LeaseLost, and errors of the backend."""
    order = order_for(row, operation, node=node, by=by, reason=reason)
    operations.set_label(node.uid, label, value or None, order)
    labels = dict(operations.look(node.uid).labels)
    Node.objects.filter(pk=node.pk).update(labels=labels)


def _holder(node: Node) -> int:
    """Return a holder unique to this row in this installation: machines outlive both, and remember whose
    orders they took.
    """
    return int(salted_hmac("clusters.node_orders", str(node.pk)).hexdigest()[:HOLDER_DIGITS], 16)
