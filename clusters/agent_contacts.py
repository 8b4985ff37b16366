"""When relays of clusters and agents of machines were heard, by whom they report."""

from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet

from accounts.models import ApiToken
from clusters import heartbeat_records
from clusters.agents import RELAY_SILENT_AFTER, AgentContact, agent_key, relay_key
from clusters.capacities import ClusterCapacity as ClusterCapacity
from clusters.capacities import capacity as capacity
from clusters.models import AgentToken, Cluster, Node
from clusters.report_tokens import has_relay
from clusters.states import NodeState


def relay_of(cluster: Cluster) -> AgentContact | None:
    """When its relay was heard; None: it has none, or nobody knows at the moment."""
    if not has_relay(cluster.kind, cluster.settings):
        return None
    key = relay_key(cluster.pk)
    heard = heartbeat_records.agents([key])
    return None if heard is None else heard.get(key, AgentContact())


def silent_relays(clusters: QuerySet[Cluster], *, now: datetime) -> QuerySet[Cluster]:
    """Return clusters whose relay has not been heard for a minute."""
    silent = clusters.filter(removed_at=None, relay_silent_since__lte=now - RELAY_SILENT_AFTER)
    return silent.order_by("name")


def agent_token(node: Node) -> ApiToken | None:
    """The newest by which its agent reports it, also when it has expired or was revoked; None: no agent."""
    agents = AgentToken.objects.filter(cluster=node.cluster_id, node_uid=node.uid)
    return ApiToken.objects.filter(pk__in=agents.values("token")).order_by("-pk").first()


def agents_of(cluster_id: int) -> dict[int, AgentContact] | None:
    """When the agents of a cluster's machines were heard, of those that have one, by the machine's id; None
    when nobody knows at the moment. One query."""
    agent = AgentToken.objects.filter(cluster=OuterRef("cluster"), node_uid=OuterRef("uid"))
    rows = Node.objects.filter(Exists(agent), cluster=cluster_id).exclude(state=NodeState.GONE)
    keys = {pk: agent_key(cluster_id, uid) for pk, uid in rows.order_by("pk").values_list("pk", "uid")}
    heard = heartbeat_records.agents(list(keys.values())) if keys else {}
    return None if heard is None else {pk: heard.get(key, AgentContact()) for pk, key in keys.items()}
