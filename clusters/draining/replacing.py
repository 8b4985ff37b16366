"""Replacement of workers on a machine before they are evicted."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from clusters.backends.pod_settings import PodSettings
from clusters.capacities import capacity, rooms_of
from clusters.draining.options import DrainOptions
from clusters.draining.pods import PlannedPod, PodPlan
from clusters.draining.remaining import each_placed
from clusters.models import Deployment, Node, Worker
from clusters.states import GONE, WorkerState


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Replacement of the ready workers that one deployment has on the machine."""

    deployment: str
    service: str
    leaving: int
    started: int
    """For so many, others are started elsewhere first."""
    ready: int = 0
    why: str = ""
    """Why not for all, or why they are not ready; empty: there is nothing to say."""

    def document(self) -> dict[str, Any]:
        return asdict(self)


def time_for_replacements(options: DrainOptions) -> int:
    """Seconds; the rest of the drain has half of its time at least."""
    return min(options.replace_seconds, options.within_seconds // 2)


def replacements(node: Node, planned: Iterable[PlannedPod], options: DrainOptions) -> list[Replacement]:
    """Return replacements of ready workers alone: others are not missed. Five queries; none without pods of
    ours.
    """
    leaving = {one.pod.name: one for one in planned if one.pod.deployment and one.fate is PodPlan.EVICTED}
    if not leaving:
        return []
    workers = Worker.objects.filter(
        name__in=leaving, deployment__cluster=node.cluster_id, state=WorkerState.READY
    ).exclude(deployment__state__in=GONE)
    by_deployment: dict[Deployment, list[PlannedPod]] = {}
    for worker in workers.select_related("deployment").order_by("deployment__name", "name"):
        by_deployment.setdefault(worker.deployment, []).append(leaving[worker.name])
    if not by_deployment:
        return []
    if not options.replace_seconds:
        return [_none(row, pods, "") for row, pods in by_deployment.items()]
    seen = capacity(node.cluster)
    rooms = rooms_of(node.cluster, seen.occupancy)
    own = next((room for room in rooms if room.name == node.name), None)
    others = [room for room in rooms if room.takes_pods and room.name != node.name]
    alike = [room for room in others if own is None or room.gpu_type == own.gpu_type]
    if not others:
        return [_none(row, pods, "No other machine takes pods.") for row, pods in by_deployment.items()]
    if seen.is_stale:
        why = "What is known of other machines is old."
        return [_none(row, pods, why) for row, pods in by_deployment.items()]
    # In one line, so that two deployments do not count on the same GPUs.
    asked = [(row, one) for row, pods in by_deployment.items() for one in pods]
    with_gpus = iter(each_placed(alike, [dict(one.pod.gpus) for _row, one in asked if one.pod.gpus]))
    fits = [next(with_gpus) if one.pod.gpus else True for _row, one in asked]
    found = []
    for row, pods in by_deployment.items():
        if row.scaled_by_others:
            found.append(_none(row, pods, "Others decide how many workers it has: none is started."))
            continue
        if PodSettings.read(row.pod).nodes_per_replica > 1:
            found.append(_none(row, pods, "Its workers span machines: none is started beside them."))
            continue
        placed = sum(is_placed for (of, _pod), is_placed in zip(asked, fits, strict=True) if of.pk == row.pk)
        why = "" if placed == len(pods) else _no_room(pods, placed, own.gpu_type if own else "")
        found.append(
            Replacement(deployment=row.name, service=row.service, leaving=len(pods), started=placed, why=why)
        )
    return found


def are_started(found: Collection[Mapping[str, Any]]) -> bool:
    return any(one["started"] for one in found)


def words_of(found: Collection[Mapping[str, Any]]) -> str:
    """`Waiting for 1 of 2 replacements of chat-v2 elsewhere. Not placed yet: ...`"""
    waiting = [one for one in found if one["ready"] < one["started"]]
    named = "; ".join(
        f"{one['started'] - one['ready']} of {one['started']} of {one['deployment']}"
        + (f" ({one['why']})" if one["why"] else "")
        for one in waiting[:5]
    )
    return f"Replacements on other machines are not ready yet: {named}." if named else ""


def _none(row: Deployment, pods: Sequence[PlannedPod], why: str) -> Replacement:
    return Replacement(deployment=row.name, service=row.service, leaving=len(pods), started=0, why=why)


def _no_room(pods: Sequence[PlannedPod], placed: int, gpu_type: str) -> str:
    gpus = max(one.pod.gpu_count for one in pods)
    kind = gpu_type or "GPU"
    return f"No other machine has {gpus} free of {kind} for {len(pods) - placed} of its {len(pods)} workers."
