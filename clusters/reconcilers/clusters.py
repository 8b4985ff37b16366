"""A cluster's row and its machines' rows say what its backend sees."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from clusters import selectors
from clusters.agents import AgentHeard
from clusters.backends.base import BackendError, ClusterBackend
from clusters.backends.configured import backend_of
from clusters.models import Cluster
from clusters.reconcilers.inventory import ObservedCluster, record_agents, record_machines
from common.live.touch import touch
from common.reconcile import Operation, Outcome, Reconciler, Step, silent_hosts, wait

LOOK_EVERY = timedelta(seconds=10)
AgentsOf = Callable[[int], Mapping[int, AgentHeard] | None]


class Survey(Step[Cluster]):
    name = "survey"

    def __init__(self, backend_of: Callable[[Cluster], ClusterBackend], agents_of: AgentsOf) -> None:
        self.backend_of = backend_of
        self.agents_of = agents_of

    def observe(self, row: Cluster, operation: Operation) -> ObservedCluster:
        try:
            backend = self.backend_of(row)
            health = backend.health()
            return ObservedCluster(
                "" if health.ok else health.detail or "It takes no orders.", backend.nodes()
            )
        except BackendError as error:
            return ObservedCluster(str(error), None)

    def settle(self, row: Cluster, seen: ObservedCluster, now: datetime) -> Outcome:
        heard, before = self.agents_of(row.pk), row.surveyed_at

        def write() -> None:
            is_news = record_machines(row, seen, now) or seen.problem != row.problem
            if record_agents(row, heard, before=before, now=now) or is_news:
                touch("fleet")

        save: dict[str, Any] = {"surveyed_at": now, "problem": seen.problem}
        return wait(LOOK_EVERY, save=save, write=write)


class ClusterReconciler(Reconciler[Cluster]):
    model = Cluster

    def __init__(
        self,
        backend_of: Callable[[Cluster], ClusterBackend] = backend_of,
        agents_of: AgentsOf = selectors.agents_of,
    ) -> None:
        self.backend_of = backend_of
        self.agents_of = agents_of

    def lane_of(self, row: Cluster) -> str:
        return row.own_lane

    def host_of(self, row: Cluster) -> str:
        return row.host

    def on_silent_host(self, host: str) -> Mapping[str, Any]:
        return {"problem": silent_hosts.why(host)}

    def next_step(self, row: Cluster, now: datetime) -> Step[Cluster] | None:
        return Survey(self.backend_of, self.agents_of)

    def on_stuck(self, row: Cluster, reason: str) -> Mapping[str, Any]:
        return {"problem": reason}
