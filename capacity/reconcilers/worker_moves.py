"""Steps of plans that move workers: services give some away first, then others start theirs."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from capacity.events import WorkersMoved
from capacity.models import CapacityPlan, CapacityStop, PoolMember
from capacity.planning.learning import learned
from capacity.reconcilers.card_moves import ended
from capacity.states import CapacityPlanState
from capacity.switch_times import kinds_of_newest, load_seconds, record_switch
from clusters import selectors as fleet
from clusters.errors import DeploymentGone, DeploymentMissing
from clusters.services.deployments import scale_deployment
from common import events
from common.actor import Actor
from common.reconcile import Effect, Operation, Step, StepOutcome, kernel, move, wait

ACTOR = Actor.system("capacity")
START_LIMIT = timedelta(minutes=10)
"""Workers that do not answer by then make their plan fail; they are left as they are."""
SOON = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class ScaleLook:
    """State of a plan's changes to numbers of workers."""

    is_stopped: bool
    is_there: bool
    refusal: str = ""


class Scale(Step[CapacityPlan]):
    """Set the workers of some services to what the plan says, and wait until they are so."""

    effect = Effect.ABSOLUTE

    def __init__(self) -> None:
        self._refusal = ""

    @abstractmethod
    def chosen(self, row: CapacityPlan) -> list[dict[str, Any]]:
        """The changes of the plan that this step makes."""

    @abstractmethod
    def is_there(self, chosen: list[dict[str, Any]]) -> bool:
        """Whether the workers are as the changes say."""

    @abstractmethod
    def next(self, row: CapacityPlan, now: datetime) -> StepOutcome:
        """Return the outcome once the workers are as the changes say."""

    def intent(self, row: CapacityPlan) -> Mapping[str, Any]:
        return {change["deployment"]: change["after"] for change in self.chosen(row)}

    def act(self, row: CapacityPlan, operation: Operation) -> None:
        for change in self.chosen(row):
            try:
                _set_workers(row, change, operation)
            except (DeploymentMissing, DeploymentGone) as error:
                self._refusal = str(error)

    def observe(self, row: CapacityPlan, operation: Operation) -> ScaleLook:
        refusal = self._refusal or _foreign_scale(self.chosen(row))
        return ScaleLook(CapacityStop.now().is_on, self.is_there(self.chosen(row)), refusal)

    def settle(self, row: CapacityPlan, seen: ScaleLook, now: datetime) -> StepOutcome:
        if seen.is_stopped:
            return ended(CapacityPlanState.STOPPED, _("The kill switch was thrown."), now)
        if seen.refusal:
            return ended(CapacityPlanState.FAILED, seen.refusal, now)
        if seen.is_there:
            return self.next(row, now)
        if now - row.state_since > START_LIMIT:
            late = _("Workers did not become ready, or did not end, within %(minutes)s minutes.")
            return ended(CapacityPlanState.FAILED, late % {"minutes": START_LIMIT.seconds // 60}, now)
        return wait(SOON)


def _took(row: CapacityPlan, now: datetime) -> float:
    return (now - row.state_since).total_seconds()


def _foreign_scale(changes: list[dict[str, Any]]) -> str:
    """Say who has set the workers of a service past Slipway; empty: nobody."""
    for change in changes:
        found = fleet.deployments_of(change["service"]).filter(name=change["deployment"]).first()
        if found is not None and found.scaled_by_others:
            foreign = _("%(by)s has set the workers of %(service)s to %(count)s past Slipway.")
            count = found.wanted_replicas
            return foreign % {"by": found.replicas_by or "?", "service": change["service"], "count": count}
    return ""


def _set_workers(row: CapacityPlan, change: Mapping[str, Any], operation: Operation) -> None:
    """Scale in one transaction with a look at the plan's fence: a lost lease changes nothing."""
    with transaction.atomic():
        mine = CapacityPlan.objects.filter(pk=row.pk, fence=operation.fence).select_for_update()
        if not mine.exists() or CapacityStop.now().is_on:
            return
        found = fleet.deployment(change["deployment"])
        if found.scaled_by_others or found.replicas == change["after"]:
            return
        reason = _("Capacity plan %(plan)s") % {"plan": row.pk}
        scale_deployment(actor=ACTOR, name=change["deployment"], replicas=change["after"], reason=reason)
        events.publish(WorkersMoved(change["service"], change["after"]))


class ReleaseWorkers(Scale):
    """Services that have too many give workers away; those end their requests first."""

    name = "release"

    def chosen(self, row: CapacityPlan) -> list[dict[str, Any]]:
        return [change for change in row.changes if change["after"] < change["before"]]

    def is_there(self, chosen: list[dict[str, Any]]) -> bool:
        counts = {change["deployment"]: change["after"] for change in chosen}
        now = fleet.deployments_now(counts)
        return all(name in now and now[name].load.workers <= count for name, count in counts.items())

    def next(self, row: CapacityPlan, now: datetime) -> StepOutcome:
        def write() -> None:
            for change in self.chosen(row):
                kinds = kinds_of_newest(change["deployment"], change["before"])
                record_switch(change["deployment"], kinds, drain_seconds=_took(row, now))
            self.released(row, now)

        return move(CapacityPlanState.ACQUIRING, save={"state_since": now}, write=write)

    def released(self, row: CapacityPlan, now: datetime) -> None:
        """Write what follows once the workers are gone, in the transaction of the step."""


class AcquireWorkers(Scale):
    """Services that need more get workers, which load their files and become ready."""

    name = "acquire"

    def chosen(self, row: CapacityPlan) -> list[dict[str, Any]]:
        return [change for change in row.changes if change["after"] > change["before"]]

    def is_there(self, chosen: list[dict[str, Any]]) -> bool:
        seen = fleet.readiness([change["deployment"] for change in chosen])
        counts = {change["deployment"]: change["after"] for change in chosen}
        return all(name in seen and seen[name].ready >= count for name, count in counts.items())

    def next(self, row: CapacityPlan, now: datetime) -> StepOutcome:
        took = _took(row, now)

        def write() -> None:
            for change in self.chosen(row):
                new = change["after"] - change["before"]
                kinds = kinds_of_newest(change["deployment"], new)
                loaded = load_seconds(change["deployment"], new)
                record_switch(change["deployment"], kinds, start_seconds=took, load_seconds=loaded)
                for one in PoolMember.objects.filter(service=change["service"]):
                    one.switch_seconds = learned(one.switch_seconds, took)
                    one.moved_at = now
                    one.save(update_fields=["switch_seconds", "moved_at"])
            if row.undoes is not None:
                kernel.interrupt(row.undoes, to=CapacityPlanState.UNDONE, state_since=now)

        return move(
            CapacityPlanState.DONE, save={"state_since": now, "ended_at": now}, write=write, after=None
        )
