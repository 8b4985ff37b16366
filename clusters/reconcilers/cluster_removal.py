"""The end of a cluster: once nothing runs there, its secrets go, and its machines with their agents."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from accounts.models import ApiToken
from accounts.services.tokens import revoke_of_part
from clusters.events import ClusterRemoved
from clusters.models import AgentToken, Cluster, FilesToken, Gpu, Node, RelayToken
from clusters.states import GpuState, NodeState
from clusters.uses import cluster_uses
from common import audit, events
from common.actor import Actor
from common.live.touch import touch
from common.reconcile import Operation, Step, StepOutcome, rest, wait
from common.sentences import listed
from images.pulls import forget_cluster

LOOK_EVERY = timedelta(seconds=5)
ACTOR = Actor.system("clusters")


class RemoveCluster(Step[Cluster]):
    """Asks nothing of the cluster: one that is gone for good can be removed, too."""

    name = "removal"

    def observe(self, row: Cluster, operation: Operation) -> Sequence[str]:
        """Return the deployments sent there at the moment when its removal was requested."""
        return cluster_uses(row)

    def settle(self, row: Cluster, seen: Sequence[str], now: datetime) -> StepOutcome:
        if seen:
            return wait(LOOK_EVERY, save={"problem": f"Still in use: {listed(seen[:10])}."})

        def write() -> None:
            _forget_machines(row, now)
            forget_cluster(row.name)
            audit.record(ACTOR, "cluster.removed", subject=row, team_id=row.team_id)
            events.publish(ClusterRemoved(row.pk))
            touch("fleet")

        return rest(save={"removed_at": now, "sealed_secrets": {}, "problem": ""}, write=write)


def _forget_machines(row: Cluster, now: datetime) -> None:
    Gpu.objects.filter(cluster=row).exclude(state=GpuState.GONE).update(state=GpuState.GONE, state_since=now)
    nodes = Node.objects.filter(cluster=row).exclude(state=NodeState.GONE)
    nodes.update(state=NodeState.GONE, state_since=now, problem="", agent_silent_since=None)
    kinds = (AgentToken, FilesToken, RelayToken)
    for rows in (kind.objects.filter(cluster=row) for kind in kinds):
        held = list(rows.values_list("token", flat=True))
        for token in ApiToken.objects.filter(pk__in=held, revoked_at=None).select_related("owner"):
            revoke_of_part(actor=ACTOR, token=token, reason=f"The cluster {row.name} was removed.")
        rows.delete()
