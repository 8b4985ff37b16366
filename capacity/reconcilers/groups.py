"""Groups of a service look every second, and change while all processes go on."""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from accounts.states import Right
from capacity.group_looks import SeenGroups, applies, look_at_groups, stored_look, stored_memory
from capacity.models import CapacityStop, GroupSwitch, ServiceGroups
from capacity.planning.learning import learned
from capacity.states import PoolMode
from clusters import selectors as fleet
from clusters.errors import DeploymentMissing
from clusters.fleet import DeploymentSnapshot
from clusters.services.deployments import set_offline_workers
from common.errors import Unavailable
from common.job_queue import ask_queue
from common.live.touch import touch
from common.reconcile import Effect, Operation, Recurring, StepOutcome, wait
from gateway import selectors as gateways
from gateway.errors import GatewayError
from gateway.services.routes import sync_workers
from serving.jobs.groups import GroupAssignment

logger = logging.getLogger(__name__)

LATEST = timedelta(seconds=10)
"""Beyond the wait for its job a worker that does not say that it is free goes online all the same."""
SWITCHING = timedelta(milliseconds=500)
KEPT = timedelta(days=30)


class ServiceGroupsReconciler(Recurring[ServiceGroups]):
    """Carries out the last decision, then looks and decides again.

    A worker that goes offline first leaves the gateway, then takes jobs; one that goes online first lets its
    job end or gives it back, then gets requests. The latency guard waits for nothing.
    """

    model = ServiceGroups
    name = "groups"
    effect = Effect.ABSOLUTE
    every = timedelta(seconds=1)
    right = Right.CAPACITY_WRITE

    def rows(self) -> QuerySet[ServiceGroups]:
        return ServiceGroups.objects.select_related("member__pool__cluster", "member__pool__team")

    def lane_of(self, row: ServiceGroups) -> str:
        return f"capacity:{row.member.pool.cluster.name}"

    def host_of(self, row: ServiceGroups) -> str:
        gateway = gateways.gateway_of(row.member.pool.cluster)
        return gateway.host if gateway else ""

    def act(self, row: ServiceGroups, operation: Operation) -> None:
        if not row.target or not applies(row) or CapacityStop.now().is_on:
            return
        deployment = fleet.deployments_now([row.target]).get(row.target)
        if deployment is None:
            return
        offline = set(row.wanted_offline)
        try:
            _route(row, operation, offline | _still_at_jobs(row, deployment, operation.at))
            _admit(row, operation, offline)
        except (GatewayError, Unavailable, DeploymentMissing) as error:
            logger.info("%s stay as they are for now: %s", row, error)

    def observe(self, row: ServiceGroups, operation: Operation) -> SeenGroups | None:
        if row.member.pool.state == PoolMode.OFF or CapacityStop.now().is_on:
            return None
        return look_at_groups(row, operation.at)

    def settle(self, row: ServiceGroups, seen: SeenGroups | None, now: datetime) -> StepOutcome:
        if seen is None:
            return wait(self.every)
        columns: dict[str, Any] = {"look": stored_look(seen), "memory": stored_memory(seen)}
        if seen.target != row.target:
            columns |= {"target": seen.target, "wanted_offline": []}
        is_new = (
            applies(row) and seen.decision is not None and sorted(seen.offline) != sorted(row.wanted_offline)
        )
        if is_new and seen.decision is not None:
            columns |= {"wanted_offline": list(seen.offline), "at_once": seen.decision.is_guarded}
        is_switching = is_new or (applies(row) and not seen.is_switched and not seen.look.held)
        is_urgent = is_new and seen.decision is not None and seen.decision.is_guarded
        pause = timedelta(0) if is_urgent else SWITCHING if is_switching else self.every
        return wait(
            pause,
            save=columns,
            write=lambda: _write_down(row, seen, now, is_new=is_new),
        )


def _still_at_jobs(row: ServiceGroups, deployment: DeploymentSnapshot, at: datetime) -> set[str]:
    """Workers that are to go online and wait for the end of a job."""
    last = row.switches.first()
    until = timedelta(seconds=row.wait_seconds) + LATEST
    if row.at_once or last is None or at - last.at > until:
        return set()
    away = fleet.offline_workers(row.target) - set(row.wanted_offline)
    return {
        one.row.uid
        for one in deployment.workers
        if one.row.uid in away and one.offers_slots and (one.group == "offline" or one.jobs_running)
    }


def _route(row: ServiceGroups, operation: Operation, offline: set[str]) -> None:
    """Raises DeploymentMissing, GatewayError: the gateway may not have taken it."""
    with transaction.atomic():
        mine = ServiceGroups.objects.filter(pk=row.pk, fence=operation.fence).select_for_update()
        if not mine.exists() or CapacityStop.now().is_on:
            return
        set_offline_workers(name=row.target, offline=offline)
    sync_workers(row.target)


def _admit(row: ServiceGroups, operation: Operation, offline: set[str]) -> None:
    """Tell the workers which of them take jobs. Raises Unavailable."""
    wait_seconds = 0.0 if row.at_once else float(row.wait_seconds)
    # Rows made later outrank this one, whatever became of it.
    fence = (row.pk << 32) + operation.fence
    assignment = GroupAssignment(offline=frozenset(offline), wait_seconds=wait_seconds, fence=fence)
    pool = (row.member.service, row.target)
    ask_queue(lambda _, store: store.assign(pool, assignment))


def _write_down(row: ServiceGroups, seen: SeenGroups, now: datetime, *, is_new: bool) -> None:
    last = row.switches.filter(ended_at=None).first()
    if last is not None and (seen.is_switched or is_new):
        last.ended_at = now
        if seen.is_switched:
            last.seconds = (now - last.at).total_seconds()
            took = learned(row.switch_seconds, last.seconds)
            ServiceGroups.objects.filter(pk=row.pk).update(switch_seconds=took)
        last.save(update_fields=["ended_at", "seconds"])
    if is_new and seen.decision is not None:
        GroupSwitch.objects.create(
            groups=row,
            at=now,
            online_before=seen.look.online,
            online_after=seen.decision.online,
            why=seen.decision.why,
            inputs=stored_look(seen),
            rejected=_shown(seen),
        )
    touch("changes", "capacity")


def _shown(seen: SeenGroups) -> list[Mapping[str, Any]]:
    return [
        {"online": online, "why": why} for online, why in (seen.decision.rejected if seen.decision else ())
    ]
