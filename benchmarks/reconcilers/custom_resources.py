"""Benchmarks that custom resources of a cluster order: a thin mirror, off unless a setting names the account
that orders them."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from accounts.actors import of_user
from accounts.models import Team, User
from benchmarks import panels
from benchmarks.models import Benchmark, BenchmarkResources
from benchmarks.services import cancel_benchmark, create_benchmark
from benchmarks.states import BENCHMARK_ENDED, BenchmarkState
from clusters.backends.base import BackendError, ClusterBackend
from clusters.backends.configured import backend_of
from clusters.backends.extras import SupportsCustomResources
from clusters.models import Cluster
from common.actor import Actor
from common.errors import Invalid, SlipwayError, Unavailable
from common.reconcile import Effect, Operation, Recurring
from kube.base import KubernetesClient, Object
from kube.errors import KubeError, NotFound, NotServed
from kube.resources import BENCHMARKS, Ref

logger = logging.getLogger(__name__)

ACCEPTED, ENDED = "Accepted", "Ended"
MOST_MESSAGE = 1_000


class ResourcesReconciler(Recurring[BenchmarkResources]):
    name = "mirror custom resources"
    effect = Effect.ABSOLUTE
    model = BenchmarkResources
    every = timedelta(seconds=10)

    def __init__(self, *, backend_of: Callable[[Cluster], ClusterBackend] = backend_of) -> None:
        self._backend_of = backend_of

    def lane_of(self, row: BenchmarkResources) -> str:
        return "benchmark-resources"

    def act(self, row: BenchmarkResources, operation: Operation) -> None:
        if not settings.SLIPWAY_BENCHMARK_RESOURCES_AS:
            return
        for cluster in Cluster.objects.present():
            try:
                backend = self._backend_of(cluster)
                if isinstance(backend, SupportsCustomResources):
                    mirror(cluster, backend.client, backend.namespace, operation.at)
            except NotServed:
                continue  # The cluster has no definition of it.
            except (BackendError, KubeError, Unavailable) as error:
                logger.warning("benchmarks of %s are not mirrored: %s", cluster, error)


def mirror(cluster: Cluster, client: KubernetesClient, namespace: str, at: datetime) -> None:
    """Order what is new, write back how all do, and cancel benchmarks whose resource is gone. Raises
    KubeError, Unavailable."""
    found = client.list(BENCHMARKS, namespace=namespace).items
    for item in found:
        status = _status(cluster, item, at)
        if status != (item.get("status") or {}):
            ref = Ref(BENCHMARKS, item["metadata"]["name"], item["metadata"]["namespace"])
            try:
                client.patch(ref, {"status": status}, subresource="status")
            except NotFound:
                continue
    left = Benchmark.objects.filter(cluster=cluster, state=BenchmarkState.RUNNING, resource__isnull=False)
    for row in left.exclude(resource__in=[one["metadata"]["uid"] for one in found]):
        cancel_benchmark(row, actor=_actor(), reason="Its custom resource was deleted.")


def _status(cluster: Cluster, item: Object, at: datetime) -> dict[str, Any]:
    before: dict[str, Any] = item.get("status") or {}
    generation = item["metadata"].get("generation", 1)
    row = Benchmark.objects.filter(resource=item["metadata"]["uid"]).first()
    if row is None and (before.get("benchmark") or before.get("observedGeneration") == generation):
        return before  # It was pruned, or refused as it is.
    if row is None:
        try:
            row = _ordered(cluster, item)
        except Unavailable:
            raise
        except SlipwayError as error:
            refused = _condition(before, generation, at, ACCEPTED, False, "Refused", str(error))
            return {"observedGeneration": generation, "conditions": [refused]}
    # A benchmark that has begun does not change: its status stays of the generation that was ordered.
    ordered = before.get("observedGeneration", generation) if before.get("benchmark") else generation
    said = _("Benchmark %(number)s of team %(team)s.") % {"number": row.pk, "team": row.team}
    if ordered != generation:
        said += " " + _("Its spec has changed since, without effect: create another one.")
    is_over = row.state in BENCHMARK_ENDED
    told: dict[str, Any] = {
        "observedGeneration": ordered,
        "benchmark": row.pk,
        "state": row.state,
        "conditions": [
            _condition(before, ordered, at, ACCEPTED, True, "Ordered", said),
            _condition(before, ordered, at, ENDED, is_over, row.state.capitalize(), row.reason),
        ],
    }
    if is_over and row.conclusion:
        best = panels.outcome_of(row).best
        told |= {"verdict": row.conclusion.get("verdict", ""), "best": best.name if best else ""}
    return told


def _ordered(cluster: Cluster, item: Object) -> Benchmark:
    """Raises SlipwayError."""
    spec: Mapping[str, Any] = item["spec"]
    team = Team.objects.filter(name=spec["team"]).first()
    if team is None:
        raise Invalid(fields={"team": [_("There is no team %(name)s.") % {"name": spec["team"]}]})
    return create_benchmark(
        actor=_actor(),
        team=team,
        name=item["metadata"]["name"],
        cluster=cluster.name,
        scenario=spec["scenario"],
        spec=spec["benchmark"],
        description=spec.get("description", ""),
        resource=item["metadata"]["uid"],
    )


def _actor() -> Actor:
    """Return the account that orders. Raises Invalid."""
    name: str = settings.SLIPWAY_BENCHMARK_RESOURCES_AS
    user = User.objects.filter(username=name, is_active=True, suspended_at=None).first()
    if user is None:
        raise Invalid(
            _("SLIPWAY_BENCHMARK_RESOURCES_AS names %(name)s, which is no active account.") % {"name": name}
        )
    return replace(of_user(user), via="api")


def _condition(
    before: Mapping[str, Any], generation: int, at: datetime, kind: str, holds: bool, reason: str, said: str
) -> dict[str, Any]:
    """Return a condition; its time changes with its status alone."""
    status = str(holds)
    since = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    for one in before.get("conditions", ()):
        if one["type"] == kind and one["status"] == status:
            since = one["lastTransitionTime"]
    return {
        "type": kind,
        "status": status,
        "observedGeneration": generation,
        "lastTransitionTime": since,
        "reason": reason,
        "message": said[:MOST_MESSAGE],
    }
