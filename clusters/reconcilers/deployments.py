"""A deployment's workers are what was wished for, and its row says how they are."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db.models import QuerySet

from clusters import file_fetches, heartbeat_records, selectors
from clusters.agents import AgentContact
from clusters.alerts import alert_named
from clusters.backends.base import (
    BackendError,
    ClusterBackend,
    ClusterUnreachable,
    FilesPending,
    Misconfigured,
    ObservedScale,
    ObservedState,
    ObservedWorker,
    RetryLater,
    StaleDeploymentFence,
)
from clusters.backends.configured import backend_of
from clusters.backends.extras import SupportsExternalScale, Watchable
from clusters.deployment_specs import spec_of
from clusters.draining.surges import NO_SURGE, ActiveSurge, surge_of
from clusters.events import (
    DeploymentDegraded,
    DeploymentFailing,
    DeploymentReady,
    DeploymentRemoved,
    WorkersChanged,
)
from clusters.fleet import LastHeartbeat
from clusters.models import Cluster, Deployment, Node, Worker
from clusters.observations import COLUMNS, WorkerChanges, facts_of, has_ended, note
from clusters.reconcilers.report_tokens import RenewReportToken, end_report_tokens, is_due
from clusters.report_tokens import has_relay, workers_report
from clusters.scrape_targets import is_read
from clusters.services.lost_rights import why_unanswered
from clusters.shared_machines import SharedWorkers, shared_workers
from clusters.states import GONE, MOVES, DeploymentState, NodeState
from clusters.verdicts import WorkerVerdict, held_back, verdict
from common import audit, events
from common.actor import Actor
from common.characters import storable
from common.live.touch import touch
from common.reconcile import Effect, LeaseLost, Operation, Outcome, Reconciler, Step, proceed, rest, wait
from common.reconcile.fence import Fence
from images.pulls import note_pull_failure, note_pulls

ACTOR = Actor.system("clusters")
CHANGING = timedelta(seconds=0.5)
STEADY = timedelta(seconds=2.5)
TROUBLED = timedelta(seconds=2)
"""Pause when the cluster does not answer, or cannot run what is wished for."""
GATEWAY_LETS_GO = timedelta(seconds=1.5)
"""Between the word that there are no endpoints any more and the signal that ends the workers."""
LOG_LINES = 40
LONGEST_LOG = 20_000


@dataclass(frozen=True, slots=True)
class DeploymentTools:
    """Dependencies of the steps."""

    backend_of: Callable[[Cluster], ClusterBackend] = backend_of
    heartbeats: Callable[[list[str]], Mapping[str, LastHeartbeat] | None] = heartbeat_records.latest
    agents: Callable[[int], Mapping[int, AgentContact] | None] = selectors.agents_of
    relay: Callable[[Cluster], AgentContact | None] = selectors.relay_of
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
    """Where others decide how many workers there are."""
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
            asks = heard is None and row.leaves_scale and isinstance(backend, SupportsExternalScale)
            scale = (
                backend.scale_of(row.name) if asks and isinstance(backend, SupportsExternalScale) else None
            )
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

    def _unseen(self, row: Deployment, seen: ObservedDeployment) -> Outcome:
        """Nothing is known: what was known stays, with the reason why it may be old."""
        is_news = seen.problem != row.reason
        return wait(
            TROUBLED,
            save={"reason": seen.problem},
            write=partial(touch, "fleet") if is_news else None,
        )


class WatchDeployment(DeploymentStep):
    """Look how the workers are; if they are not those that were wished for, or one has ended, the wish has to
    be told again."""

    name = "watch"

    def heard(
        self, row: Deployment, backend: ClusterBackend, known: Sequence[Worker]
    ) -> SharedWorkers | None:
        """While its workers are heard to be as they were, and well, nobody asks. Versions that a release may
        compare are looked at: its clock runs by that."""
        if row.state != DeploymentState.READY or not isinstance(backend, Watchable):
            return None
        found = self.tools.heard(row.cluster, row.name)
        if found is None or len(found.workers) != row.wanted_replicas:
            return None
        present = {(one.uid, one.state, one.restarts) for one in known}
        if {(one.id, one.state, one.restarts) for one in found.workers} != present:
            return None
        others = selectors.deployments_of(row.service).exclude(pk=row.pk)
        return None if others.exists() else found

    def settle(self, row: Deployment, seen: ObservedDeployment, now: datetime) -> Outcome:
        if seen.problem:
            return self._unseen(row, seen)
        noted = self.noted(row, seen, now)
        found = judged(row, seen, noted, now)
        save = columns(row, seen, noted, found, now)
        is_fulfilled = has_its_workers(row, seen)
        if not is_fulfilled or seen.logs:
            # Workers that ended start again by themselves, but only `ApplyDeployment` brings back lost files.
            save["applied_generation"] = 0
        is_steady = is_fulfilled and found.state == DeploymentState.READY and not seen.logs
        return wait(
            STEADY if is_steady else CHANGING, save=save, write=writing(row, seen, noted, found, save)
        )


class ApplyDeployment(DeploymentStep):
    """Tell the backend the wish, again and again until it shows exactly the workers that were wished for."""

    name = "apply"
    effect = Effect.ABSOLUTE
    _refusal = ""
    _coming: RetryLater | None = None
    _files_reason: str | None = None
    _unanswered = ""
    """Why it may not have been told: then it is told again, whatever is seen."""

    def intent(self, row: Deployment) -> Mapping[str, Any]:
        return {"version": row.version_label, "replicas": row.replicas, "generation": row.generation}

    def act(self, row: Deployment, operation: Operation) -> Mapping[str, Any]:
        try:
            backend, spec = self.tools.backend_of(row.cluster), spec_of(row)
            self._files_reason = backend.files_reason(spec)
            backend.apply(spec, fence=Fence(row.pk, operation.fence))
        except StaleDeploymentFence:
            raise LeaseLost from None
        except (ClusterUnreachable, Misconfigured) as error:
            self._unanswered = why_unanswered(row.cluster, error)
        except RetryLater as error:
            self._coming = error
        except BackendError as error:
            self._refusal = str(error)
        return {"refusal": self._refusal}

    def settle(self, row: Deployment, seen: ObservedDeployment, now: datetime) -> Outcome:
        if seen.problem:
            return self._unseen(row, seen)
        noted = self.noted(row, seen, now)
        found = judged(row, seen, noted, now)
        if (
            (self._refusal or self._coming or self._unanswered)
            and not row.replicas
            and found.state == DeploymentState.READY
        ):
            # It wants no workers yet, and so lacks none: what it waits for are its files.
            found = WorkerVerdict(DeploymentState.STARTING, "")
        if self._refusal:
            found = held_back(found, self._refusal)
        if self._coming or self._unanswered:
            found = WorkerVerdict(found.state, str(self._coming or self._unanswered))
        save = columns(row, seen, noted, found, now, coming=self._coming)
        if self._files_reason is not None:
            save["files_reason"] = self._files_reason
        write = writing(row, seen, noted, found, save, coming=self._coming)
        if self._refusal or self._unanswered or isinstance(self._coming, FilesPending):
            return wait(TROUBLED, save=save, write=write)
        if self._coming or not has_its_workers(row, seen):
            return wait(CHANGING, save=save, write=write)
        return proceed(save={**save, "applied_generation": row.generation}, write=write, after=CHANGING)


class DrainWait(Step[Deployment]):
    """Give the gateway the time to stop sending requests."""

    name = "wait for drain"

    def settle(self, row: Deployment, seen: Any, now: datetime) -> Outcome:
        return wait(max(timedelta(0), removal_due(row) - now))


class RemoveDeployment(DeploymentStep):
    name = "remove"
    effect = Effect.ABSOLUTE
    _unanswered = ""

    def act(self, row: Deployment, operation: Operation) -> Mapping[str, Any]:
        try:
            self.tools.backend_of(row.cluster).remove(row.name, fence=Fence(row.pk, operation.fence))
        except StaleDeploymentFence:
            raise LeaseLost from None
        except (ClusterUnreachable, Misconfigured) as error:
            # That no worker is seen is no reason then: other things of it may be there.
            self._unanswered = why_unanswered(row.cluster, error)
        return {}

    def settle(self, row: Deployment, seen: ObservedDeployment, now: datetime) -> Outcome:
        if seen.problem:
            return wait(TROUBLED)
        noted = self.noted(row, seen, now)
        still = WorkerVerdict(DeploymentState.REMOVING, row.reason)
        if seen.workers or self._unanswered:
            save = columns(row, seen, noted, still, now)
            return wait(
                TROUBLED if self._unanswered else CHANGING,
                save=save,
                write=writing(row, seen, noted, still, save),
            )
        gone = WorkerVerdict(DeploymentState.REMOVED, row.reason)
        save = columns(row, seen, noted, gone, now) | {"sealed_report_token": ""}
        write = writing(row, seen, noted, gone, save)

        def end() -> None:
            write()
            end_report_tokens(row)

        return rest(save=save, write=end)


class DeploymentReconciler(Reconciler[Deployment]):
    model = Deployment

    def __init__(self, tools: DeploymentTools | None = None) -> None:
        self.tools = tools or DeploymentTools()

    def rows(self) -> QuerySet[Deployment]:
        return Deployment.objects.select_related("cluster", "image")

    def lane_of(self, row: Deployment) -> str:
        return row.cluster.own_lane

    def host_of(self, row: Deployment) -> str:
        return row.cluster.host

    def next_step(self, row: Deployment, now: datetime) -> Step[Deployment] | None:
        if row.state == DeploymentState.REMOVED:
            return None
        if row.state == DeploymentState.REMOVING:
            return DrainWait() if now < removal_due(row) else RemoveDeployment(self.tools)
        if is_due(row, now):
            return RenewReportToken()
        if row.applied_generation != row.generation:
            return ApplyDeployment(self.tools)
        return WatchDeployment(self.tools)

    def on_stuck(self, row: Deployment, reason: str) -> Mapping[str, Any]:
        events.publish(DeploymentFailing(row.pk))
        touch("fleet")
        return {} if row.state in GONE else {"state": DeploymentState.FAILING, "reason": reason}


def removal_due(row: Deployment) -> datetime:
    assert row.removal_asked_at is not None  # noqa: S101  (set with the state)
    return row.removal_asked_at + GATEWAY_LETS_GO


def wanted_of(row: Deployment, seen: ObservedDeployment) -> int:
    """Return the number of workers to have: others' decision, once our own last one was carried out."""
    if seen.scale is not None and seen.scale.turn >= row.generation:
        return seen.scale.replicas
    return row.wanted_replicas


def has_its_workers(row: Deployment, seen: ObservedDeployment) -> bool:
    """Whether as many workers as are wanted are there to stay."""
    is_leaving = any(one.state == ObservedState.DRAINING for one in seen.workers)
    return len(seen.workers) == wanted_of(row, seen) + seen.surge.extra and not is_leaving


def log_of(backend: ClusterBackend, worker: str) -> str:
    try:
        return storable(backend.logs(worker, lines=LOG_LINES)[-LONGEST_LOG:])
    except BackendError:
        return ""  # An end without its last words is still an end.


def judged(row: Deployment, seen: ObservedDeployment, noted: WorkerChanges, now: datetime) -> WorkerVerdict:
    return verdict(
        wanted=wanted_of(row, seen),
        workers=[facts_of(worker) for worker in noted.workers],
        was_ready=row.ready_generation == row.generation,
        now=now,
    )


def columns(
    row: Deployment,
    seen: ObservedDeployment,
    noted: WorkerChanges,
    found: WorkerVerdict,
    now: datetime,
    *,
    coming: RetryLater | None = None,
) -> dict[str, Any]:
    """Return the columns to store. `coming`: what the cluster waits for before it starts workers."""
    reason = " ".join(filter(None, (found.reason, seen.surge.words)))
    observed_at = now if seen.heard_at is None else max(seen.heard_at, row.observed_at or seen.heard_at)
    save: dict[str, Any] = {"observed_at": observed_at, "reason": reason}
    if seen.scale is not None and seen.scale.turn >= row.generation:
        save |= {"observed_replicas": seen.scale.replicas, "replicas_by": seen.scale.by[:128]}
    save["fetches"] = file_fetches.documents(
        [
            *(one.fetch for one in seen.workers if one.fetch),
            *(coming.fetches if isinstance(coming, FilesPending) else ()),
        ],
        before=row.fetches,
        seconds=(now - row.observed_at).total_seconds() if row.observed_at else 0.0,
    )
    if found.state != row.state:
        MOVES.check(DeploymentState(row.state), found.state)
        save |= {"state": found.state, "state_since": now}
    if found.state == DeploymentState.READY:
        save["ready_generation"] = row.generation
    if noted.lost_restarts:
        save["lost_restarts"] = row.lost_restarts + noted.lost_restarts
    if last_words := [text for text in seen.logs.values() if text]:
        save["log_tail"] = last_words[-1]
    return save


def writing(
    row: Deployment,
    seen: ObservedDeployment,
    noted: WorkerChanges,
    found: WorkerVerdict,
    save: Mapping[str, Any],
    *,
    coming: RetryLater | None = None,
) -> Callable[[], None]:
    """Write what has changed and tell whom it concerns; most looks find nothing."""
    is_move = found.state != row.state
    is_news = is_move or noted.is_news or save["reason"] != row.reason or save["fetches"] != row.fetches

    def write() -> None:
        Worker.objects.filter(pk__in=[worker.pk for worker in noted.gone]).delete()
        Worker.objects.bulk_create(noted.fresh)
        if noted.changed:
            Worker.objects.bulk_update(noted.changed, [*COLUMNS])
        if noted.endpoints_changed:
            events.publish(WorkersChanged(row.pk))
        note_image(row, seen, noted, coming, save["observed_at"])
        for worker in noted.alerted:
            if (begun := alert_named(worker.alert)) and begun.event:
                events.publish(begun.event(worker.pk))
        if is_move:
            action = f"deployment.{found.state.value}"
            audit.record(ACTOR, action, subject=row, reason=found.reason, team_id=row.team_id)
            if told := _MOVES.get(found.state):
                events.publish(told(row.pk))
        if is_news:
            touch("fleet")

    return write


def note_image(
    row: Deployment, seen: ObservedDeployment, noted: WorkerChanges, coming: RetryLater | None, now: datetime
) -> None:
    """Tell the catalogue that the cluster cannot pull the image, or that workers start with it."""
    if row.image is None:
        return
    failures = [one.pull_failure for one in seen.workers if one.pull_failure]
    if isinstance(coming, FilesPending) and coming.pull_failure:
        failures.append(coming.pull_failure)
    cluster = row.cluster
    if failures:
        note_pull_failure(row.image, cluster=cluster.name, team=cluster.team, reason=failures[0], at=now)
    elif noted.endpoints_changed and any(one.state == ObservedState.READY for one in seen.workers):
        note_pulls([(row.image.digest, None)], cluster=cluster.name)


_MOVES = {
    DeploymentState.READY: DeploymentReady,
    DeploymentState.DEGRADED: DeploymentDegraded,
    DeploymentState.FAILING: DeploymentFailing,
    DeploymentState.REMOVED: DeploymentRemoved,
}
