"""Orders of people and reconcilers for a machine. Its row refuses a second one at a time."""

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require_for_owner
from accounts.states import Right
from clusters.errors import NodeBusy, OperationNotAllowed
from clusters.models import Node
from clusters.services.drains import refuse_while_drained
from clusters.states import NodeOperation, NodeState
from common import audit, clock
from common.actor import Actor
from common.errors import Invalid
from common.live.touch import touch
from common.reconcile import kernel


def cordon_node(*, actor: Actor, node: Node, reason: str) -> Node:
    """No new worker is placed there; those that run go on. It is done a moment later.

    Raises NotAllowed, Invalid without a reason, NodeBusy while another operation is under way, Conflict when
    it is cordoned already or gone.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, node.cluster.team)
    if node.is_cordoned:
        raise OperationNotAllowed(
            _("%(node)s is cordoned already, by %(by)s: %(reason)s")
            % {
                "node": node.name,
                "by": node.cordoned_by or _("somebody outside Slipway"),
                "reason": node.cordon_reason or "-",
            }
        )
    return _order(actor, node, NodeOperation.CORDON, reason)


def uncordon_node(*, actor: Actor, node: Node, reason: str) -> Node:
    """New workers may be placed there again, whoever cordoned it. Raises as `cordon_node`."""
    require_for_owner(actor, Right.FLEET_OPERATE, node.cluster.team)
    if not node.is_cordoned:
        raise OperationNotAllowed(_("%(node)s is not cordoned.") % {"node": node.name})
    return _order(actor, node, NodeOperation.UNCORDON, reason)


def _order(actor: Actor, node: Node, operation: NodeOperation, reason: str) -> Node:
    reason = reason.strip()
    if not reason:
        raise Invalid(fields={"reason": [_("Give a reason: whoever finds the machine so reads it.")]})
    if node.state == NodeState.GONE:
        raise OperationNotAllowed(
            _("The cluster has no machine %(node)s any more: there is nothing to operate.")
            % {"node": node.name}
        )
    refuse_while_drained(node)
    with transaction.atomic():
        is_ours = kernel.wake(
            node,
            where={"operation": NodeOperation.NONE, "is_cordoned": node.is_cordoned},
            operation=operation,
            operation_by=actor.name,
            operation_reason=reason,
            operation_at=clock.now(),
            operation_problem="",
        )
        node.refresh_from_db()
        if not is_ours:
            raise _busy(node)
        audit.record(
            actor,
            f"node.{operation.value}",
            subject=node,
            reason=reason,
            detail={"cordoned_by": node.cordoned_by} if node.is_cordoned else {},
            team_id=node.cluster.team_id,
        )
        touch("fleet")
    return node


def _busy(node: Node) -> NodeBusy:
    if not node.operation:
        return NodeBusy(
            _("Somebody else changed %(node)s at the same moment. Look at it again.") % {"node": node.name}
        )
    return NodeBusy(
        _("%(node)s has one operation at a time: %(by)s ordered %(operation)s just before. Try again soon.")
        % {
            "node": node.name,
            "by": node.operation_by,
            "operation": str(NodeOperation(node.operation).label).lower(),
        }
    )
