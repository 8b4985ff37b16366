"""A machine's pods leave for others: cordon, replacements elsewhere, the gateways, then eviction as budgets
allow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from clusters.backends.base import ObservedNode
from clusters.backends.configured import backend_of
from clusters.backends.node_operations import CordonedByOther, Eviction, NodeCommand, NodeOperations
from clusters.backends.observed_pods import ObservedPod
from clusters.draining.checkpoint_webhook import CheckpointReply
from clusters.draining.checkpoints import (
    CheckpointProgress,
    grace_of,
    news_of,
    sorted_by,
    with_webhooks,
    words_of,
)
from clusters.draining.pods import PlannedPod, PodPlan, plan, why_it_cannot_be
from clusters.draining.progress import due, entries_of, look_after, still_there, why_it_ends
from clusters.draining.surges import surges
from clusters.events import (
    NodeCordoned,
    NodeDrainCancelled,
    NodeDrained,
    NodeDrainFailed,
    NodeDraining,
    NodeUncordoned,
)
from clusters.models import Drain, Node, Surge, Worker
from clusters.reconcilers.drain_checkpoints import ask_webhooks, record_checkpoints
from clusters.reconcilers.drain_replacements import AwaitReplacements, StartReplacements
from clusters.reconcilers.drain_steps import (
    LOOK_EVERY,
    BackendOf,
    DrainStep,
    end_surges,
    ended,
    failed,
    given_back,
    redirect,
)
from clusters.reconcilers.inventory import cordon_columns
from clusters.services.node_orders import order_for
from clusters.states import DRAIN_MOVES, DrainState
from common import audit, events
from common.actor import Actor
from common.live.touch import touch
from common.reconcile import (
    Effect,
    NotKnownHere,
    Operation,
    Reconciler,
    Step,
    StepOutcome,
    kernel,
    move,
    wait,
)

ACTOR = Actor.system("clusters")
GATEWAY_LETS_GO = timedelta(seconds=1.5)
"""Between the word that requests go elsewhere and the first eviction."""
AT_ONCE = 10
"""So many pods are asked to leave in one step, which has 20 s."""


class CordonMachine(DrainStep):
    """No new pod comes. Whose cordon it is tells whether it is taken back when the drain is cancelled."""

    name = "cordon"

    def act(self, row: Drain, operation: Operation) -> None:
        order = order_for(row, operation, node=row.node, by=row.cordon_name, reason=row.reason)
        try:
            with self.asking(row):
                self.operations(row).cordon(row.node.uid, order)
        except CordonedByOther:
            pass  # it is cordoned, and stays theirs

    def observe(self, row: Drain, operation: Operation) -> ObservedNode | None:
        with self.asking(row):
            return self.operations(row).look(row.node.uid)
        return None

    def settle(self, row: Drain, seen: ObservedNode | None, now: datetime) -> StepOutcome:
        if self.refusal or seen is None:
            return failed(row, self.refusal, now)
        cordon = seen.cordon
        if cordon is None:
            return wait(LOOK_EVERY)
        is_ours = cordon.by == row.cordon_name

        def write() -> None:
            Node.objects.filter(pk=row.node_id).update(**cordon_columns(cordon))
            if is_ours:
                events.publish(NodeCordoned(row.node_id))

        return move(DrainState.REPLACING, save={"has_cordoned": is_ours, "state_since": now}, write=write)


class DivertRequests(DrainStep):
    """Requests go to other workers before the first of ours there ends."""

    name = "turn away"
    effect = Effect.NONE

    def observe(self, row: Drain, operation: Operation) -> Sequence[ObservedPod]:
        with self.asking(row):
            return self.operations(row).pods(row.node.uid)
        return ()

    def settle(self, row: Drain, seen: Sequence[ObservedPod], now: datetime) -> StepOutcome:
        planned = plan(seen, row.wanted, elapsed=now - row.asked_at)
        save = {"pods": entries_of(planned, row.pods, {}, now), "seen_at": now, "state_since": now}
        if why := self.refusal or why_it_cannot_be(planned):
            return failed(row, why, now, save=save)
        leaving = [one.pod.name for one in planned if one.pod.deployment and one.fate is PodPlan.EVICTED]

        def write() -> None:
            workers = Worker.objects.filter(name__in=leaving, deployment__cluster=row.node.cluster_id)
            ids = list(workers.values_list("deployment_id", flat=True).distinct())
            workers.update(leaves_with=row.pk)
            redirect(ids, now)

        after = GATEWAY_LETS_GO if leaving else timedelta(0)
        return move(DrainState.EVICTING, save=save, write=write, after=after)


@dataclass(frozen=True, slots=True)
class NodeView:
    pods: Sequence[ObservedPod] = ()
    is_cordoned: bool = True


class EvictPods(DrainStep):
    """Each pod that is to go is asked to; whom a budget holds back is asked again later."""

    name = "evict"

    def __init__(self, backend_of: BackendOf) -> None:
        super().__init__(backend_of)
        self.answers: dict[str, Eviction] = {}
        self.asked: dict[str, str] = {}
        """For a checkpoint, by uid: empty, or why that was not possible."""
        self.told: dict[str, CheckpointReply] = {}
        """What webhooks said when they were asked for one, by uid."""
        self.kept: dict[str, str] = {}
        """How far with their checkpoints were whom it has evicted, by uid."""
        self.handed_over: dict[int, list[str]] = {}
        """Workers that others stand in for: their deployment lets go of them, by its surge."""

    def act(self, row: Drain, operation: Operation) -> None:
        wanted, operations = row.wanted, None
        with self.asking(row):
            operations = self.operations(row)
            pods = operations.pods(row.node.uid)
        if operations is None:
            return
        planned = plan(pods, wanted, elapsed=operation.at - row.asked_at)
        if why_it_ends(planned, wanted, operation.at - row.asked_at):
            return
        planned = with_webhooks(planned, wanted, row.pods)
        turn = sorted_by(
            due(planned, row.pods, operation.at),
            row.pods,
            operation.at,
            most_seconds=wanted.checkpoint_seconds,
        )
        self.told = ask_webhooks(row, turn, operation.at)
        self.asked = {one.pod.uid: "" for one in turn.ask if one.pod.uid in self.told}
        if not (turn.ask or turn.evict):
            return
        order = order_for(row, operation, node=row.node, by=row.cordon_name, reason=row.reason)
        stood_in_for = {one.deployment.name: one for one in surges(row)}
        by_annotation = [one for one in turn.ask if one.pod.checkpoint and not one.pod.checkpoint.url]
        for one in by_annotation[:AT_ONCE]:
            self.asked[one.pod.uid] = self._ask(row, operations, one, order)
        for one in turn.evict[: max(1, AT_ONCE - len(self.asked) - 2 * len(self.told))]:
            if state := turn.kept.get(one.pod.uid):
                self.kept[one.pod.uid] = state
            if self._hand_over(one, stood_in_for.get(one.pod.deployment)):
                continue
            with self.asking(row):
                self.answers[one.pod.uid] = operations.evict(
                    row.node.uid,
                    one.pod,
                    order,
                    grace_seconds=grace_of(one, wanted.grace_seconds),
                    past_budgets=wanted.past_budgets,
                )
            if self.refusal:
                return

    def _hand_over(self, one: PlannedPod, surge: Surge | None) -> bool:
        """Whether its deployment lets go of it, since another worker stands in for it. An eviction would have
        its controller make one more, to end it at once. Who was asked before and is still there is evicted.
        """
        if surge is None or one.pod.name in surge.handed_over:
            return False
        given = self.handed_over.setdefault(surge.pk, [])
        if len(surge.handed_over) + len(given) >= surge.ready:
            return False
        given.append(one.pod.name)
        self.answers[one.pod.uid] = Eviction(is_accepted=True)
        return True

    def _hand_all_over(self, row: Drain) -> None:
        for one in surges(row):
            if names := self.handed_over.get(one.pk):
                Surge.objects.filter(pk=one.pk).update(handed_over=[*one.handed_over, *names])
                kernel.interrupt(
                    one.deployment, where={"removal_asked_at__isnull": True}, applied_generation=0
                )

    def _ask(self, row: Drain, operations: NodeOperations, one: PlannedPod, order: NodeCommand) -> str:
        """Whoever may not be asked is evicted without: an eviction needs no such right."""
        with self.asking(row):
            operations.ask_checkpoint(row.node.uid, one.pod, order)
        why, self.refusal = self.refusal, ""
        return why

    def observe(self, row: Drain, operation: Operation) -> NodeView:
        with self.asking(row):
            operations = self.operations(row)
            return NodeView(operations.pods(row.node.uid), operations.look(row.node.uid).cordon is not None)
        return NodeView()

    def settle(self, row: Drain, seen: NodeView, now: datetime) -> StepOutcome:
        if self.refusal:
            return failed(row, self.refusal, now)
        planned = plan(seen.pods, row.wanted, elapsed=now - row.asked_at)
        planned = with_webhooks(planned, row.wanted, row.pods, self.told)
        entries = entries_of(
            planned,
            row.pods,
            self.answers,
            now,
            asked=self.asked,
            kept=self.kept,
            checkpoint_seconds=row.wanted.checkpoint_seconds,
            told=self.told,
        )
        checkpoints = news_of(entries, row.pods)
        save: dict[str, Any] = {"pods": entries, "seen_at": now}
        if not seen.is_cordoned:
            return failed(row, "Somebody uncordoned the machine: new pods would come.", now, save=save)
        if not still_there(planned):
            return move(
                DrainState.DRAINED,
                save={**save, **ended(now), "problem": ""},
                write=_both(given_back(row, now), lambda: record_checkpoints(row, checkpoints)),
                after=None,
            )
        blocked = {one["uid"]: one["blocked_by"] for one in entries}
        if why := why_it_ends(planned, row.wanted, now - row.asked_at, blocked):
            return failed(row, why, now, save=save)
        is_news = _shown(entries) != _shown(row.pods)
        waits = any(one.get("checkpoint") == CheckpointProgress.ASKED for one in entries)
        problem = next((one["blocked_by"] for one in entries if one["blocked_by"]), "")
        problem = problem or (words_of(entries) if waits else "")

        def write() -> None:
            self._hand_all_over(row)
            record_checkpoints(row, checkpoints)
            if is_news:
                touch("fleet")

        after = look_after(entries, now, until=row.asked_at + timedelta(seconds=row.wanted.within_seconds))
        return wait(after, save={**save, "problem": problem}, write=write)


class UndoCordon(DrainStep):
    """A cordon of its own; one that a person or another part set stays."""

    name = "take back"

    def act(self, row: Drain, operation: Operation) -> None:
        order = order_for(row, operation, node=row.node, by=row.cordon_name, reason=row.cancel_reason)
        try:
            with self.asking(row):
                self.operations(row).uncordon(row.node.uid, order)
        except CordonedByOther:
            pass

    def observe(self, row: Drain, operation: Operation) -> ObservedNode | None:
        with self.asking(row):
            return self.operations(row).look(row.node.uid)
        return None

    def settle(self, row: Drain, seen: ObservedNode | None, now: datetime) -> StepOutcome:
        if self.refusal or seen is None:
            return failed(row, self.refusal, now)
        cordon = seen.cordon
        if cordon is not None and cordon.by == row.cordon_name:
            return wait(LOOK_EVERY)
        give_back = given_back(row, now)

        def write() -> None:
            give_back()
            Node.objects.filter(pk=row.node_id).update(**cordon_columns(cordon))
            if cordon is None and row.has_cordoned:
                events.publish(NodeUncordoned(row.node_id))

        return move(
            DrainState.CANCELLED,
            note=row.cancel_reason,
            save={**ended(now), "problem": ""},
            write=write,
            after=None,
        )


class AbandonDrain(DrainStep):
    """Nobody can be asked any more."""

    name = "abandon"
    effect = Effect.NONE

    def settle(self, row: Drain, seen: Any, now: datetime) -> StepOutcome:
        return failed(row, f"The cluster {row.node.cluster.name} was removed.", now)


class DrainReconciler(Reconciler[Drain]):
    model = Drain
    moves = DRAIN_MOVES

    def __init__(self, backend_of: BackendOf = backend_of) -> None:
        self.backend_of = backend_of

    def rows(self) -> QuerySet[Drain]:
        return Drain.objects.select_related("node__cluster")

    def lane_of(self, row: Drain) -> str:
        return row.node.cluster.own_lane

    def host_of(self, row: Drain) -> str:
        return row.node.cluster.host

    def next_step(self, row: Drain, now: datetime) -> Step[Drain] | None:
        if not row.is_under_way:
            return None
        if row.node.cluster.removed_at is not None:
            return AbandonDrain(self.backend_of)
        match row.state:
            case DrainState.CORDONING:
                return CordonMachine(self.backend_of)
            case DrainState.REPLACING:
                started = AwaitReplacements if row.replacements else StartReplacements
                return started(self.backend_of)
            case DrainState.TURNING_AWAY:
                return DivertRequests(self.backend_of)
            case DrainState.EVICTING:
                return EvictPods(self.backend_of)
            case DrainState.CANCELLING:
                return UndoCordon(self.backend_of)
            case _:
                raise NotKnownHere.state(row.state)

    def on_move(self, row: Drain, to: str, note: Any) -> None:
        team = row.node.cluster.team_id
        audit.record(ACTOR, f"node.drain.{to}", subject=row.node, reason=str(note), team_id=team)
        if told := _MOVES.get(to):
            events.publish(told(row.node_id, row.pk))
        touch("fleet")

    def on_stuck(self, row: Drain, reason: str) -> Mapping[str, Any]:
        """Until a person has looked nothing has workers beyond its wish on its behalf."""
        end_surges(row)
        Surge.objects.filter(drain=row).update(workers=0)
        touch("fleet")
        return {"problem": reason}


_MOVES: Mapping[str, Callable[[int, int], object]] = {
    DrainState.TURNING_AWAY: NodeDraining,
    DrainState.DRAINED: NodeDrained,
    DrainState.FAILED: NodeDrainFailed,
    DrainState.CANCELLED: NodeDrainCancelled,
}


def _both(one: Callable[[], None], other: Callable[[], None]) -> Callable[[], None]:
    def write() -> None:
        one()
        other()

    return write


def _shown(entries: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str, str]]:
    return [(one["uid"], one["fate"], one["blocked_by"], one.get("checkpoint", "")) for one in entries]
