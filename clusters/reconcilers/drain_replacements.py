"""Before our own workers are evicted, others are ready on other machines, as far as there is room."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from clusters.backends.observed_pods import ObservedPod
from clusters.draining.pods import plan, why_it_cannot_be
from clusters.draining.progress import entries_of
from clusters.draining.replacing import (
    Replacement,
    are_started,
    replacements,
    time_for_replacements,
    words_of,
)
from clusters.draining.surges import asked_for, ready_on_staying_machines, surges
from clusters.models import Deployment, Drain, Surge, Worker
from clusters.reconcilers.drain_steps import LOOK_EVERY, DrainStep, failed
from clusters.states import GONE, DrainState, WorkerState
from common.live.touch import touch
from common.reconcile import Effect, Operation, StepOutcome, kernel, move, wait


class StartReplacements(DrainStep):
    """Deployments want more workers for now. The wish is the drain's own row, so that it ends with the drain,
    however that ends."""

    name = "start replacements"
    effect = Effect.NONE

    def observe(self, row: Drain, operation: Operation) -> Sequence[ObservedPod]:
        with self.asking(row):
            return self.operations(row).pods(row.node.uid)
        return ()

    def settle(self, row: Drain, seen: Sequence[ObservedPod], now: datetime) -> StepOutcome:
        planned = plan(seen, row.wanted, elapsed=now - row.asked_at)
        save: dict[str, Any] = {"pods": entries_of(planned, row.pods, {}, now), "seen_at": now}
        if why := self.refusal or why_it_cannot_be(planned):
            return failed(row, why, now, save=save)
        found = replacements(row.node, planned, row.wanted)
        save["replacements"] = [one.document() for one in found]
        if not are_started(save["replacements"]):
            return move(DrainState.TURNING_AWAY, save={**save, "state_since": now})

        def write() -> None:
            for one in found:
                if one.started:
                    _start(row, one)
            touch("fleet")

        return wait(LOOK_EVERY, save={**save, "problem": words_of(save["replacements"])}, write=write)


class AwaitReplacements(DrainStep):
    """Wait until they are ready or their time is up; then the drain goes on without."""

    name = "wait for replacements"
    effect = Effect.NONE

    def settle(self, row: Drain, seen: Any, now: datetime) -> StepOutcome:
        standing = {one.deployment.name: one for one in surges(row)}
        found = [_looked_at(one, standing.get(one["deployment"])) for one in row.replacements]
        waited = (now - row.state_since).total_seconds()
        is_late = waited >= time_for_replacements(row.wanted)
        words = words_of(found)
        if words and not is_late:
            write = (lambda: touch("fleet")) if found != row.replacements else None
            return wait(LOOK_EVERY, save={"replacements": found, "problem": words}, write=write)
        if words:
            found = [
                one if one["ready"] >= one["started"] else {**one, "why": _late(one, round(waited))}
                for one in found
            ]
        ready = {one["deployment"]: one["ready"] for one in found}

        def write_ready() -> None:
            for name, surge in standing.items():
                Surge.objects.filter(pk=surge.pk).update(ready=min(ready.get(name, 0), surge.workers))

        save = {"replacements": found, "problem": "", "state_since": now}
        return move(DrainState.TURNING_AWAY, save=save, write=write_ready)


def _start(row: Drain, one: Replacement) -> None:
    """Start a replacement, inside the step's transaction. A deployment that is being removed gets none."""
    deployment = Deployment.objects.exclude(state__in=GONE).filter(name=one.deployment).first()
    if deployment is None:
        return
    staying = ready_on_staying_machines(deployment.pk)
    wanted = staying + asked_for(deployment.pk) + one.started
    Surge.objects.create(drain=row, deployment=deployment, workers=one.started, ready_wanted=wanted)
    kernel.interrupt(deployment, where={"removal_asked_at__isnull": True}, applied_generation=0)


def _looked_at(one: Mapping[str, Any], surge: Surge | None) -> dict[str, Any]:
    """Return how many of the started workers are ready, and why the others are not."""
    if surge is None or not one["started"]:
        return {**one, "ready": one["started"]}
    row = surge.deployment
    if row.state in GONE or not row.replicas:
        return {**one, "ready": one["started"], "why": "It wants no workers any more."}
    missing = min(surge.ready_wanted, row.replicas) - ready_on_staying_machines(row.pk)
    ready = max(0, one["started"] - max(0, missing))
    return {**one, "ready": ready, "why": "" if ready == one["started"] else _why_not_ready(row)}


def _why_not_ready(row: Deployment) -> str:
    """Return the reason of the newest worker that is not ready."""
    others = Worker.objects.filter(deployment=row).exclude(state=WorkerState.READY).exclude(reason="")
    return others.order_by("-state_since", "-pk").values_list("reason", flat=True).first() or ""


def _late(one: Mapping[str, Any], seconds: int) -> str:
    why = f": {one['why']}" if one["why"] else "."
    return f"{one['started'] - one['ready']} of {one['started']} were not ready after {seconds} s{why}"
