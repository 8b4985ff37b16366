"""Steps of plans that move workloads: those that give way write checkpoints and stop, then others start."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _

from capacity.changes import parts_of
from capacity.models import CapacityPlan, CapacityStop, Workload
from capacity.planning.lending import CardGrant
from capacity.services.workloads import ask_to_give_way, call_back, grant_cards
from capacity.states import CapacityPlanState, WorkloadState
from common.reconcile import Effect, LeaseLost, Operation, Step, StepOutcome, kernel, move, wait

LOOK_EVERY = timedelta(seconds=1)
MARGIN = timedelta(minutes=5)
"""Beyond the longest checkpoint: to stop what gave way, and to start what comes."""


@dataclass(frozen=True, slots=True)
class CardMoveLook:
    is_stopped: bool
    is_there: bool
    refusal: str = ""
    slowest: timedelta = timedelta(0)


def ended(
    to: CapacityPlanState, reason: str, now: datetime, *, write: Callable[[], None] | None = None
) -> StepOutcome:
    return move(to, save={"reason": reason, "state_since": now, "ended_at": now}, after=None, write=write)


class CardMove(Step[CapacityPlan], ABC):
    effect = Effect.ABSOLUTE

    def intent(self, row: CapacityPlan) -> Mapping[str, Any]:
        return {change["name"]: change["after"] for change in row.changes}

    def act(self, row: CapacityPlan, operation: Operation) -> None:
        if CapacityStop.now().is_on:
            return
        if not CapacityPlan.objects.filter(pk=row.pk, fence=operation.fence).exists():
            raise LeaseLost
        for change in row.changes:
            workload = Workload.objects.select_related("pool__cluster").filter(pk=change["workload"]).first()
            if workload is not None:
                self.change(row, change, workload, operation.at)

    @abstractmethod
    def change(self, row: CapacityPlan, change: Any, workload: Workload, now: datetime) -> None:
        """Ask for the part of this step."""

    def settle(self, row: CapacityPlan, seen: CardMoveLook, now: datetime) -> StepOutcome:
        if seen.is_stopped:
            return self.given_up(row, CapacityPlanState.STOPPED, _("The kill switch was thrown."), now)
        if seen.refusal:
            return self.given_up(row, CapacityPlanState.FAILED, seen.refusal, now)
        if seen.is_there:
            return self.next(row, now)
        if now - row.state_since > seen.slowest + MARGIN:
            late = _("Workloads did not stop, or did not start, within %(minutes)s minutes.")
            minutes = int((seen.slowest + MARGIN).total_seconds() // 60)
            return self.given_up(row, CapacityPlanState.FAILED, late % {"minutes": minutes}, now)
        return wait(LOOK_EVERY)

    def given_up(self, row: CapacityPlan, to: CapacityPlanState, reason: str, now: datetime) -> StepOutcome:
        """End the plan; workloads that it asked to give way, and that have not begun to, go on."""
        return ended(to, reason, now, write=lambda: call_back(row))

    @abstractmethod
    def next(self, row: CapacityPlan, now: datetime) -> StepOutcome:
        """Return the outcome once the step is done."""


class ReleaseCards(CardMove):
    """Have the workloads that leave their cards write a checkpoint and stop."""

    name = "release-cards"

    def change(self, row: CapacityPlan, change: Any, workload: Workload, now: datetime) -> None:
        if change["before"] and workload.holds_cards:
            ask_to_give_way(workload, since=row.state_since, now=now)

    def observe(self, row: CapacityPlan, operation: Operation) -> CardMoveLook:
        leaving = [change["workload"] for change in row.changes if change["before"]]
        rows = list(Workload.objects.filter(pk__in=leaving))
        kept = next((one for one in rows if one.refused_at and one.refused_at >= row.state_since), None)
        return CardMoveLook(
            is_stopped=CapacityStop.now().is_on,
            is_there=not any(one.holds_cards for one in rows),
            refusal=f"{kept}: {kept.problem}" if kept else "",
            slowest=timedelta(seconds=max((one.checkpoint_seconds for one in rows), default=0)),
        )

    def next(self, row: CapacityPlan, now: datetime) -> StepOutcome:
        return move(CapacityPlanState.ACQUIRING, save={"state_since": now})


class AcquireCards(CardMove):
    """Give workloads their cards and see them at work. One that started elsewhere meanwhile stays there."""

    name = "acquire-cards"

    def change(self, row: CapacityPlan, change: Any, workload: Workload, now: datetime) -> None:
        if change["after"] and workload.state == WorkloadState.QUEUED:
            parts = [
                CardGrant(str(workload.pk), one["machine"], tuple(one["cards"]), one.get("lender", ""))
                for one in parts_of(change["after"])
            ]
            grant_cards(workload, replace(parts[0], rest=tuple(parts[1:])), now=now)

    def observe(self, row: CapacityPlan, operation: Operation) -> CardMoveLook:
        coming = [change["workload"] for change in row.changes if change["after"]]
        rows = list(Workload.objects.filter(pk__in=coming))
        failed = next((one for one in rows if one.state == WorkloadState.FAILED), None)
        W = WorkloadState
        done = (W.RUNNING, W.CHECKPOINTING, W.SUCCEEDED, W.CANCELLED)
        return CardMoveLook(
            is_stopped=CapacityStop.now().is_on,
            is_there=all(one.state in done for one in rows),
            refusal=f"{failed}: {failed.problem}" if failed else "",
            slowest=timedelta(minutes=25),
        )

    def next(self, row: CapacityPlan, now: datetime) -> StepOutcome:
        def write() -> None:
            if row.undoes is not None:
                kernel.interrupt(row.undoes, to=CapacityPlanState.UNDONE, state_since=now)

        columns = {"state_since": now, "ended_at": now}
        return move(CapacityPlanState.DONE, save=columns, write=write, after=None)
