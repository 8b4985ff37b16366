"""The row of a deployment as its workers are, and whom a change concerns."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from clusters import file_fetches
from clusters.alerts import alert_named
from clusters.backends.base import FilesPending, ObservedScale, ObservedState, RetryLater
from clusters.events import (
    DeploymentDegraded,
    DeploymentFailing,
    DeploymentReady,
    DeploymentRemoved,
    WorkersChanged,
)
from clusters.models import Deployment, Worker
from clusters.observations import COLUMNS, WorkerChanges, facts_of
from clusters.reconcilers.deployment_steps import ObservedDeployment
from clusters.states import MOVES, DeploymentState
from clusters.verdicts import WorkerVerdict, verdict
from common import audit, events
from common.actor import Actor
from common.live.touch import touch
from images.pulls import note_pull_failure, note_pulls

ACTOR = Actor.system("clusters")


def wanted_of(row: Deployment, seen: ObservedDeployment) -> int:
    """Return the number of workers to have: others' decision, once our own last one was carried out."""
    if seen.scale is None:
        return row.wanted_replicas
    return seen.scale.replicas if _is_of_others(row, seen.scale) else row.replicas


def _is_of_others(row: Deployment, scale: ObservedScale) -> bool:
    return scale.turn >= row.generation and (row.leaves_scale or bool(scale.by))


def has_its_workers(row: Deployment, seen: ObservedDeployment) -> bool:
    """Whether as many workers as are wanted are there to stay."""
    is_leaving = any(one.state == ObservedState.DRAINING for one in seen.workers)
    has_others = seen.scale is not None and _is_of_others(row, seen.scale)
    extra = 0 if has_others else seen.surge.extra
    return len(seen.workers) == wanted_of(row, seen) + extra and not is_leaving


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
    if seen.scale is not None and _is_of_others(row, seen.scale):
        save |= {"observed_replicas": seen.scale.replicas, "replicas_by": seen.scale.by[:128]}
    elif seen.scale is not None and not row.leaves_scale:
        save |= {"observed_replicas": None, "replicas_by": ""}
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
