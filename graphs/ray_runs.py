"""Graphs on Ray in a Kubernetes cluster, as people order them: submitted, listed, aborted.

The cluster says what runs: its RayJobs and RayServices are found by their label, and nothing of them is kept
here but the audit record.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from clusters import selectors as fleet
from clusters.backends.base import ClusterUnreachable, Misconfigured
from clusters.backends.configured import backend_of
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.models import Cluster
from clusters.states import ClusterKind
from common import audit
from common.actor import Actor
from common.errors import Missing, Unavailable
from graphs import selectors
from graphs.backends.kuberay import KubeRay
from graphs.backends.ray_objects import RayOrder, RayPods
from graphs.errors import GraphPlanNotReady, RayOrderInvalid
from graphs.models import Graph
from graphs.orders import description_of
from kube.errors import ApiForbidden, KubeError
from serving.graphs.plan import GraphPlan


@dataclass(frozen=True)
class RayRun:
    """A RayJob (`is_job`) or RayService of a graph as its cluster shows it."""

    cluster: str
    name: str
    is_job: bool
    state: str
    reason: str


def clusters_of(graph: Graph) -> list[str]:
    """Return the Kubernetes clusters that the graph's team may use."""
    rows = Cluster.objects.filter(Q(team=None) | Q(team=graph.team_id), kind=ClusterKind.KUBERNETES)
    return list(rows.order_by("name").values_list("name", flat=True))


def submit(
    graph: Graph,
    *,
    actor: Actor,
    cluster: str,
    name: str,
    pods: Mapping[str, int],
    reason: str = "",
    **order: Any,
) -> RayRun:
    """Run the graph by its active plan in a cluster: over `source` as a job, without one as a service. Raises
    NotAllowed, ClusterMissing, GraphPlanNotReady, RayOrderInvalid, Unavailable."""
    require(actor, Right.FLEET_OPERATE, graph.team)
    plan = selectors.active_plan(graph)
    if plan is None or plan.digest != graph.digest:
        raise GraphPlanNotReady(_("The graph has no active plan of this version: start one first."))
    description = description_of(graph)
    if bool(order.get("source")) != bool(order.get("out")):
        raise RayOrderInvalid(_("A job needs a source and a place for its results; a service has neither."))
    with _ray_of(graph, cluster) as (ray, namespace):
        made = RayOrder(
            name=name,
            namespace=namespace,
            graph=description,
            plan=GraphPlan.parse(plan.runtime, description),
            pods=RayPods(**pods),
            **order,
        )
        ray.submit(made)
        detail = {"cluster": cluster, "name": name, "plan": plan.pk, "job": made.is_job}
        with transaction.atomic():
            audit.record(
                actor, "graph.submit", subject=graph, reason=reason, team_id=graph.team_id, detail=detail
            )
        return _seen(ray, cluster, name, is_job=made.is_job)


def runs(graph: Graph, *, cluster: str) -> list[RayRun]:
    """Raises ClusterMissing, RayOrderInvalid, Unavailable."""
    with _ray_of(graph, cluster) as (ray, _namespace):
        return [
            _seen(ray, cluster, name, is_job=is_job)
            for name, is_job in ray.running(description_of(graph).name)
        ]


def abort(graph: Graph, *, actor: Actor, cluster: str, name: str, reason: str = "") -> RayRun:
    """Remove a job or service with its Ray cluster. Raises NotAllowed, ClusterMissing, RayOrderInvalid,
    Unavailable."""
    require(actor, Right.FLEET_OPERATE, graph.team)
    with _ray_of(graph, cluster) as (ray, _namespace):
        found = dict(ray.running(description_of(graph).name))
        if name not in found:
            raise RayOrderInvalid(_("The graph has no run %(name)s in that cluster.") % {"name": name})
        ray.abort(name, is_job=found[name])
        detail = {"cluster": cluster, "name": name}
        with transaction.atomic():
            audit.record(
                actor, "graph.abort", subject=graph, reason=reason, team_id=graph.team_id, detail=detail
            )
        return _seen(ray, cluster, name, is_job=found[name])


def _seen(ray: KubeRay, cluster: str, name: str, *, is_job: bool) -> RayRun:
    seen = ray.observe(name, is_job=is_job)
    return RayRun(cluster, name, is_job, seen.state.value, seen.reason)


@contextmanager
def _ray_of(graph: Graph, name: str) -> Iterator[tuple[KubeRay, str]]:
    """The cluster's KubeRay, and the namespace that Slipway has there."""
    cluster = _usable(graph, name)
    try:
        client = getattr(backend_of(cluster), "client", None)
        if client is None:
            raise RayOrderInvalid(_("%(cluster)s is no Kubernetes cluster.") % {"cluster": name})
        namespace = KubernetesSettings.read(cluster.settings).namespace
        yield KubeRay(client, namespace), namespace
    except ApiForbidden as error:
        grant = _("The cluster does not let Slipway do this: %(error)s Grant it the feature `graphs`.")
        raise RayOrderInvalid(grant % {"error": error}) from None
    except (ClusterUnreachable, Misconfigured, KubeError) as error:
        raise Unavailable(_("The cluster does not answer: %(error)s") % {"error": error}) from None


def _usable(graph: Graph, name: str) -> Cluster:
    cluster = fleet.cluster(name)
    if cluster.team_id not in (None, graph.team_id):
        told = {"team": graph.team.name, "cluster": name}
        raise Missing(_("Team %(team)s has no cluster %(cluster)s.") % told)
    return cluster
