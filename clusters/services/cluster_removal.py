"""A cluster goes when nothing runs there any more; its row stays, for what once ran there names it."""

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require_for_owner
from accounts.states import Right
from clusters.errors import ClusterInUse, ClusterRemoving
from clusters.models import Cluster
from clusters.uses import cluster_uses
from common import audit, clock
from common.actor import Actor
from common.errors import Invalid
from common.live.touch import touch
from common.reconcile import kernel
from common.sentences import listed

MOST_NAMED = 10


def remove_cluster(*, actor: Actor, cluster: Cluster, reason: str, expected: int | None = None) -> Cluster:
    """Stop sending anything to the cluster; a moment later it is gone, its secrets with it.

    Asking again changes nothing. Raises NotAllowed, Invalid without a reason, ClusterInUse naming what runs
    there or is about to, Stale when the revision is not the `expected` one.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, cluster.team)
    reason = reason.strip()
    if not reason:
        raise Invalid(fields={"reason": [_("Give a reason: it is kept in the audit log.")]})
    if cluster.removal_asked_at is not None:
        return cluster
    with transaction.atomic():
        cluster.change(expected=expected, removal_asked_at=clock.now(), removal_by=actor.name)
        # Who makes a deployment at this moment may not see it yet: the removal waits for that one's end.
        refuse_while_used(cluster)
        kernel.wake(cluster)
        audit.record(actor, "cluster.remove", subject=cluster, reason=reason, team_id=cluster.team_id)
        touch("fleet")
    return cluster


def refuse_while_used(cluster: Cluster) -> None:
    """Raises ClusterInUse."""
    if not (uses := cluster_uses(cluster)):
        return
    named = uses[:MOST_NAMED]
    if more := len(uses) - len(named):
        named.append(_("%(more)d more") % {"more": more})
    raise ClusterInUse(
        _("%(cluster)s is in use: %(uses)s. End these first.")
        % {"cluster": cluster.name, "uses": listed(named)}
    )


def refuse_if_it_goes(cluster: Cluster) -> None:
    """Raises ClusterRemoving. For inside the transaction that sends something there."""
    asked = Cluster.objects.filter(pk=cluster.pk).values_list("removal_asked_at", flat=True).first()
    if asked is not None:
        raise ClusterRemoving(
            _("The cluster %(cluster)s is being removed, or was: choose another one.")
            % {"cluster": cluster.name}
        )
