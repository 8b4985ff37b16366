"""Licences to operate a machine past its row's own operations: for what another part does over many steps."""

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _

from clusters.backends.base import Fence
from clusters.backends.node_operations import Order
from clusters.errors import NodeBusy
from clusters.models import Node
from clusters.states import NodeOperation


def order_for(node: Node, *, op_key: str, by: str, reason: str) -> Order:
    """An order that is later than every one before it: whoever holds an earlier one is refused by the machine
    once this one has come to it.

    Raises NodeBusy while an operation is under way that somebody ordered of the machine's row.
    """
    with transaction.atomic():
        at_rest = Node.objects.filter(pk=node.pk, operation=NodeOperation.NONE)
        if not at_rest.update(fence=F("fence") + 1):
            raise NodeBusy(_("Another operation is under way on %(node)s.") % {"node": node.name})
        turn = Node.objects.values_list("fence", flat=True).get(pk=node.pk)
    return Order(op_key=op_key, fence=Fence(node.pk, turn), by=by, reason=reason)
