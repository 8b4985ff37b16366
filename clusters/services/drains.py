"""People and other apps have a machine's pods sent to others, after a look at what that would do."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models import Count, Q
from django.utils.translation import gettext as _

from accounts.services.rights import require_for_owner
from accounts.states import Right
from clusters.backends.base import BackendError
from clusters.backends.configured import backend_of
from clusters.draining.checkpoint_webhook import webhook_faults
from clusters.draining.options import DrainOptions
from clusters.draining.pods import GOES, PlannedPod, PodPlan, plan, why_it_cannot_be
from clusters.draining.progress import entries_of
from clusters.draining.remaining import Remaining, remaining
from clusters.draining.replacing import Replacement, replacements
from clusters.errors import ClusterUnreadable, DrainEnded, NodeBusy, OperationNotAllowed
from clusters.models import Deployment, Drain, Node
from clusters.notes import deployment_notes
from clusters.states import DRAINS, UNDER_WAY, DrainState, NodeState, WorkerState
from common import audit, clock
from common.actor import Actor
from common.errors import Invalid
from common.live.touch import touch
from common.reconcile import kernel


@dataclass(frozen=True, slots=True)
class AffectedDeployment:
    """A deployment of ours that loses workers."""

    name: str
    service: str
    version: str
    leaving: int
    """Workers that leave the machine."""
    ready_elsewhere: int
    """Ready workers on other machines: who answers meanwhile."""
    note: str = ""
    """What else is known of it: a release that needs it."""


@dataclass(frozen=True, slots=True)
class DrainPreview:
    pods: Sequence[PlannedPod]
    deployments: Sequence[AffectedDeployment]
    problem: str
    """Why it cannot be done with these options; empty: it can."""
    remaining: Remaining
    """What other machines have left for those that leave."""
    replacements: Sequence[Replacement] = ()
    """Of our ready workers there, which get others elsewhere first."""

    @property
    def affected(self) -> Sequence[tuple[AffectedDeployment, Replacement | None]]:
        """Each deployment with what is started elsewhere for it first; None: its workers are not ready."""
        replaced = {one.deployment: one for one in self.replacements}
        return [(one, replaced.get(one.name)) for one in self.deployments]

    @property
    def counts(self) -> Mapping[str, int]:
        return Counter(str(one.fate) for one in self.pods)

    @property
    def shown(self) -> Sequence[Mapping[str, object]]:
        """Return the pods as a drain's row has them."""
        return entries_of(self.pods, (), {}, clock.now())

    @property
    def blocked(self) -> Sequence[PlannedPod]:
        """Held back by a budget at the moment."""
        return [one for one in self.pods if one.blocked_by]


def preview_drain(*, actor: Actor, node: Node, options: DrainOptions) -> DrainPreview:
    """Preview a drain as the cluster is now; it changes nothing.

    Raises NotAllowed, Invalid, OperationNotAllowed for a machine that is gone, ClusterUnreadable when the
    cluster does not answer or may not be asked.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, node.cluster.team)
    _check(node, options)
    try:
        pods = backend_of(node.cluster).node_operations.pods(node.uid)
    except BackendError as error:
        raise ClusterUnreadable(
            _("What stands on %(node)s cannot be seen: %(why)s") % {"node": node.name, "why": error}
        ) from None
    planned = plan(pods, options, elapsed=timedelta(0))
    leaving = [one.pod.gpus for one in planned if one.fate in GOES and not one.pod.has_ended]
    room = remaining(node, leaving)
    replaced = replacements(node, planned, options)
    return DrainPreview(planned, _affected(node, planned), why_it_cannot_be(planned), room, replaced)


def remaining_for(drain: Drain) -> Remaining:
    """Return the capacity of other machines for the pods that have not left yet."""
    return remaining(drain.node, [one["gpus"] for one in drain.pods if one["fate"] in map(str, GOES)])


def drain_node(
    *, actor: Actor, node: Node, reason: str, options: DrainOptions | None = None, op_key: str = ""
) -> Drain:
    """Send its pods to other machines; it is done over the next minutes, and the machine stays cordoned.

    What the same `op_key` has ordered is returned as it is now. Raises NotAllowed, Invalid without a reason
    or with options that cannot be meant, NodeBusy while another operation or drain of the machine is under
    way, OperationNotAllowed when it is gone.
    """
    options = options or DrainOptions()
    require_for_owner(actor, Right.FLEET_OPERATE, node.cluster.team)
    if op_key and (known := Drain.objects.filter(op_key=op_key).first()):
        return known
    reason = reason.strip()
    if not reason:
        raise Invalid(fields={"reason": [_("Give a reason: whoever finds the machine so reads it.")]})
    _check(node, options)
    with transaction.atomic():
        refuse_while_drained(node)
        if node.operation:
            raise NodeBusy(
                _("%(node)s has one operation at a time: %(by)s ordered another one. Try again soon.")
                % {"node": node.name, "by": node.operation_by}
            )
        try:
            with transaction.atomic():
                row = Drain.objects.create(
                    node=node, by=actor.name, reason=reason, options=options.document(), op_key=op_key
                )
        except IntegrityError:
            refuse_while_drained(node)
            raise
        kernel.wake(row)
        audit.record(
            actor,
            "node.drain",
            subject=node,
            reason=reason,
            detail=row.options,
            team_id=node.cluster.team_id,
        )
        touch("fleet")
    return row


def cancel_drain(*, actor: Actor, drain: Drain, reason: str) -> Drain:
    """No further pod is asked to leave; a cordon that the drain set is taken back, and no other one.

    Asking again changes nothing. Raises NotAllowed, Invalid without a reason, DrainEnded.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, drain.node.cluster.team)
    reason = reason.strip()
    if not reason:
        raise Invalid(fields={"reason": [_("Give a reason: it is kept in the audit log.")]})
    for state in DRAINS:
        with transaction.atomic():
            if kernel.interrupt(
                drain,
                to=DrainState.CANCELLING,
                where={"state": state},
                cancelled_by=actor.name,
                cancel_reason=reason,
                problem="",
            ):
                audit.record(
                    actor,
                    "node.drain.cancel",
                    subject=drain.node,
                    reason=reason,
                    team_id=drain.node.cluster.team_id,
                )
                touch("fleet")
                break
    drain.refresh_from_db()
    if drain.state in (DrainState.CANCELLING, DrainState.CANCELLED):
        return drain
    raise DrainEnded(
        _("This drain has ended: it is %(state)s.") % {"state": drain.get_state_display().lower()}
    )


def refuse_while_drained(node: Node) -> None:
    """Raises NodeBusy."""
    row = Drain.objects.filter(node=node, state__in=UNDER_WAY).first()
    if row is not None:
        raise NodeBusy(
            _("%(node)s is being drained: %(by)s ordered it. Cancel that first.")
            % {"node": node.name, "by": row.by}
        )


def _check(node: Node, options: DrainOptions) -> None:
    if faults := {**options.faults(), **webhook_faults(options)}:
        raise Invalid(fields={name: [words] for name, words in faults.items()})
    if node.state == NodeState.GONE:
        raise OperationNotAllowed(
            _("The cluster has no machine %(node)s any more: there is nothing to operate.")
            % {"node": node.name}
        )


def _affected(node: Node, planned: Sequence[PlannedPod]) -> list[AffectedDeployment]:
    leaving = Counter(
        one.pod.deployment for one in planned if one.pod.deployment and one.fate in (*GOES, PodPlan.STOPS)
    )
    elsewhere = Count("workers", filter=Q(workers__state=WorkerState.READY) & ~Q(workers__node=node))
    rows = Deployment.objects.filter(name__in=leaving, cluster=node.cluster).annotate(elsewhere=elsewhere)
    notes = deployment_notes() if leaving else {}
    return [
        AffectedDeployment(
            row.name,
            row.service,
            row.version_label,
            leaving[row.name],
            row.elsewhere,  # type: ignore[attr-defined]
            notes[row.name].text if row.name in notes else "",
        )
        for row in rows.order_by("service", "name")
    ]
