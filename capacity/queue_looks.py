"""A look at the queue of one service: what waits, how many workers it needs, whether it will be late."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from capacity.models import ServiceQueue
from capacity.observing import stable_target
from capacity.planning.backlog import QueueDecision, QueueMemory, QueueState, recommend_for_queue
from capacity.planning.errors import PlanningError
from capacity.queues.base import QueueAddress, QueueSilent, QueueSource
from capacity.queues.jobs import JobsOfDeployment
from capacity.queues.kinds import KINDS
from capacity.states import QueueKind
from capacity.switch_times import switch_time
from clusters import selectors as fleet
from clusters.fleet import DeploymentSnapshot
from common.sealed import CannotUnseal, unseal

PURPOSE = "queue"
AWAKE_SECONDS = 300.0
"""For which one worker is kept after work was refused because none ran."""


@dataclass(frozen=True)
class QueueLook:
    """A queue at one moment. rate: work that arrives, in workers. late_seconds: by which the deadline will be
    missed. problem: why the queue did not tell; the figures are then those of the look before."""

    at: float
    waiting: float = 0.0
    in_hand: float = 0.0
    rate: float = 0.0
    item_seconds: float = 0.0
    workers: int = 0
    late_seconds: float = 0.0
    why: str = ""
    problem: str = ""


@dataclass(frozen=True)
class SeenQueue:
    look: QueueLook
    memory: Mapping[str, Any]


def look_at_queue(row: ServiceQueue, now: datetime) -> SeenQueue:
    """Ask the queue, and decide how many workers it should have. Silence keeps what was decided before."""
    member, target = row.member, stable_target(row.member.service)
    deployment = fleet.deployments_now([target]).get(target)
    before = QueueLook(**row.look) if row.look else QueueLook(0.0)
    try:
        sample = source_of(row, target, deployment).sample()
        state = QueueState(
            now.timestamp(),
            sample.waiting,
            sample.in_hand,
            sample.arrived,
            ready=deployment.load.ready if deployment else 0,
            starting=max(0, deployment.row.replicas - deployment.load.ready) if deployment else 0,
            start_seconds=switch_time(member, target),
            most=member.most_workers,
            declared_item_seconds=row.item_seconds,
            deadline=row.deadline.timestamp() if row.deadline else None,
        )
    except (QueueSilent, CannotUnseal, PlanningError) as error:
        return SeenQueue(replace(before, problem=str(error)), row.memory)
    told = recommend_for_queue(_memory(row, target), state)
    look = QueueLook(
        state.at,
        sample.waiting,
        sample.in_hand,
        told.rate,
        told.item_seconds,
        _awake(row, told, now),
        told.late_seconds,
        told.why,
    )
    return SeenQueue(look, {**asdict(told.memory), "target": target})


def source_of(row: ServiceQueue, target: str, deployment: DeploymentSnapshot | None) -> QueueSource:
    """Raises CannotUnseal."""
    if row.kind == QueueKind.JOBS:
        running = sum(one.jobs_running for one in deployment.workers) if deployment else 0
        return JobsOfDeployment(row.member.service, target, running)
    return KINDS[QueueKind(row.kind)].open(address_of_row(row))


def address_of_row(row: ServiceQueue) -> QueueAddress:
    """Raises CannotUnseal."""
    secret = unseal(row.sealed_secret, purpose=PURPOSE) if row.sealed_secret else ""
    return QueueAddress(row.url, row.subject, row.consumer_group, secret)


def _memory(row: ServiceQueue, target: str) -> QueueMemory:
    """A release changes the place where jobs wait, not how long one takes."""
    kept = dict(row.memory)
    if not kept:
        return QueueMemory()
    was = kept.pop("target")
    kept["highest"] = tuple((at, workers) for at, workers in kept["highest"])
    found = QueueMemory(**kept)
    return found if was == target or row.kind != QueueKind.JOBS else replace(found, at=0.0, arrived=None)


def _awake(row: ServiceQueue, told: QueueDecision, now: datetime) -> int:
    is_wanted = row.wanted_at is not None and (now - row.wanted_at).total_seconds() < AWAKE_SECONDS
    return max(told.workers, int(is_wanted))
