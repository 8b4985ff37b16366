"""The base of a deployment's steps: the state of its workers as the cluster has it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from clusters import agent_contacts, heartbeat_records
from clusters.agents import AgentContact
from clusters.backends.base import (
    BackendError,
    ClusterBackend,
    ClusterUnreachable,
    Misconfigured,
    ObservedScale,
    ObservedWorker,
)
from clusters.backends.configured import backend_of
from clusters.backends.extras import SupportsExternalScale
from clusters.draining.surges import NO_SURGE, ActiveSurge, surge_of
from clusters.fleet import LastHeartbeat
from clusters.models import Cluster, Deployment, Node, Worker
from clusters.observations import WorkerChanges, has_ended, note
from clusters.report_tokens import has_relay, workers_report
from clusters.scrape_targets import is_read
from clusters.services.lost_rights import why_unanswered
from clusters.shared_machines import SharedWorkers, shared_workers
from clusters.states import NodeState
from common.characters import storable
from common.live.touch import touch
from common.reconcile import Operation, Step, StepOutcome, wait

TROUBLED = timedelta(seconds=2)
"""Pause when the cluster does not answer, or cannot run what is wished for."""
LOG_LINES = 40
LONGEST_LOG = 20_000


@dataclass(frozen=True, slots=True)
class DeploymentTools:
    """Dependencies of the steps."""

    backend_of: Callable[[Cluster], ClusterBackend] = backend_of
    heartbeats: Callable[[list[str]], Mapping[str, LastHeartbeat] | None] = heartbeat_records.latest
    agents: Callable[[int], Mapping[int, AgentContact] | None] = agent_contacts.agents_of
    relay: Callable[[Cluster], AgentContact | None] = agent_contacts.relay_of
    heard: Callable[[Cluster, str], SharedWorkers | None] = shared_workers


@dataclass(frozen=True, slots=True)
class ObservedDeployment:
    known: list[Worker]
    workers: tuple[ObservedWorker, ...]
    logs: Mapping[str, str]
    heartbeats: Mapping[str, LastHeartbeat] | None
    nodes: Mapping[str, int]
    agents: Mapping[int, AgentContact]
    surge: ActiveSurge = NO_SURGE
    scale: ObservedScale | None = None
    """Where others decide how many workers there are, or may have done so; None: it was not asked."""
    heard_at: datetime | None = None
    """When this was so, as the cluster told it by itself; None: it was asked just now."""
    problem: str = ""
    """Why nothing was seen; the other fields mean nothing then."""


class DeploymentStep(Step[Deployment]):
    def __init__(self, tools: DeploymentTools) -> None:
        self.tools = tools

    def observe(self, row: Deployment, operation: Operation) -> ObservedDeployment:
        known = list(Worker.objects.filter(deployment=row).order_by("name"))
        try:
            backend = self.tools.backend_of(row.cluster)
            heard = self.heard(row, backend, known)
            workers = heard.workers if heard else backend.observe(row.name)
            scale = None
            if heard is None and isinstance(backend, SupportsExternalScale) and _may_be_foreign(row, workers):
                scale = backend.scale_of(row.name)
        except (ClusterUnreachable, Misconfigured) as error:
            return ObservedDeployment(known, (), {}, None, {}, {}, problem=why_unanswered(row.cluster, error))
        rows = {worker.uid: worker for worker in known}
        ended = [one.id for one in workers if has_ended(one, rows.get(one.id))]
        nodes = Node.objects.filter(cluster_id=row.cluster_id).exclude(state=NodeState.GONE)
        by_name = dict(nodes.values_list("name", "pk"))
        relay = self.tools.relay(row.cluster)
        instead = {} if relay is None else dict.fromkeys(by_name.values(), relay)
        return ObservedDeployment(
            known=known,
            workers=workers,
            logs={worker: log_of(backend, worker) for worker in ended},
            heartbeats=self._heartbeats(row, workers),
            nodes=by_name,
            agents={**instead, **(self.tools.agents(row.cluster_id) or {})},
            surge=surge_of(row),
            scale=scale,
            heard_at=heard.heard_at if heard else None,
        )

    def heard(
        self, row: Deployment, backend: ClusterBackend, known: Sequence[Worker]
    ) -> SharedWorkers | None:
        """Return the state heard by a watch. None: the cluster has to be asked."""
        return None

    def _heartbeats(
        self, row: Deployment, workers: Iterable[ObservedWorker]
    ) -> Mapping[str, LastHeartbeat] | None:
        if not workers_report(row.cluster.kind, row.cluster.settings):
            return None
        if not is_read(row, has_relay=has_relay(row.cluster.kind, row.cluster.settings)):
            return None
        return self.tools.heartbeats([one.id for one in workers])

    def noted(self, row: Deployment, seen: ObservedDeployment, now: datetime) -> WorkerChanges:
        return note(
            row.pk,
            seen.known,
            seen.workers,
            logs=seen.logs,
            heartbeats=seen.heartbeats,
            nodes=seen.nodes,
            agents=seen.agents,
            now=now,
        )

    def _unseen(self, row: Deployment, seen: ObservedDeployment) -> StepOutcome:
        """Nothing is known: what was known stays, with the reason why it may be old."""
        is_news = seen.problem != row.reason
        return wait(
            TROUBLED,
            save={"reason": seen.problem},
            write=partial(touch, "fleet") if is_news else None,
        )


def _may_be_foreign(row: Deployment, workers: Sequence[ObservedWorker]) -> bool:
    """Say whether to ask who set the scale: not while all workers are there that were wished for."""
    return row.scaled_by_others or len(workers) != row.replicas


def log_of(backend: ClusterBackend, worker: str) -> str:
    try:
        return storable(backend.logs(worker, lines=LOG_LINES)[-LONGEST_LOG:])
    except BackendError:
        return ""  # An end without its last words is still an end.
