"""A cluster's pods are counted: what they hold of its GPUs, and which of them wait."""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from clusters.backends.base import BackendError, ClusterBackend
from clusters.backends.devices import ClaimsDevices
from clusters.backends.gpu_names import MIG_CLASS, NVIDIA
from clusters.backends.node_operations import OperationUnsupported
from clusters.backends.observed_pods import ObservedPod, ObservedPods
from clusters.models import Cluster, Occupancy
from clusters.shared_machines import shared_pods
from common.live.touch import touch
from common.reconcile import Operation, Step, StepOutcome, proceed

COUNT_EVERY = timedelta(seconds=30)
MOST_PENDING = 200
"""So many pods that wait are kept with their reasons."""


class CountPods(Step[Cluster]):
    """Never raises for the cluster's sake: what was counted last stays, with its age."""

    name = "count pods"

    def __init__(self, backend_of: Callable[[Cluster], ClusterBackend]) -> None:
        self.backend_of = backend_of

    def observe(self, row: Cluster, operation: Operation) -> "CountedPods | str":
        try:
            backend = self.backend_of(row)
            pods = shared_pods(row) or backend.pods()
            return CountedPods(pods, _devices_of(backend))
        except BackendError as error:
            return str(error)

    def settle(self, row: Cluster, seen: "CountedPods | str", now: datetime) -> StepOutcome:
        if isinstance(seen, str):
            counted: dict[str, Any] = {"problem": seen}
        else:
            pods = seen.pods
            devices = _known_devices(row) if seen.devices is None else seen.devices
            counts = counts_of(pods.pods, devices)
            counted = {**counts, "devices": devices, "problem": pods.problem, "seen_at": pods.seen_at or now}

        def write() -> None:
            before = Occupancy.objects.filter(cluster=row).first()
            Occupancy.objects.update_or_create(cluster=row, defaults=counted)
            told = {name: value for name, value in counted.items() if name != "seen_at"}
            if before is None or any(getattr(before, name) != value for name, value in told.items()):
                touch("fleet")

        return proceed(save={"counted_at": now}, write=write)


@dataclass(frozen=True, slots=True)
class CountedPods:
    pods: ObservedPods
    devices: Mapping[str, Any] | None
    """None: they could not be seen; what was seen last stays."""


def _devices_of(backend: ClusterBackend) -> dict[str, list[dict[str, Any]]] | None:
    """Return the cards that pods claim, by machine. Pods count without the right to see claims."""
    found: dict[str, list[dict[str, Any]]] = {}
    if not isinstance(backend, ClaimsDevices):
        return found
    try:
        cards = backend.devices.observe()
    except OperationUnsupported:
        return found
    except BackendError:
        return None
    for card in sorted(cards, key=lambda one: one.index):
        document = asdict(card) | {"held": [asdict(one) for one in card.held]}
        found.setdefault(document.pop("machine"), []).append(document)
    return found


def _known_devices(row: Cluster) -> dict[str, list[dict[str, Any]]]:
    return Occupancy.objects.filter(cluster=row).values_list("devices", flat=True).first() or {}


def is_due(row: Cluster, now: datetime) -> bool:
    return row.counted_at is None or row.counted_at <= now - COUNT_EVERY


def counts_of(
    pods: Iterable[ObservedPod], devices: Mapping[str, Iterable[Mapping[str, Any]]]
) -> dict[str, Any]:
    """Columns of `Occupancy`. `devices`: cards that pods claim, by machine."""
    ours = set()
    used: dict[str, dict[str, dict[str, int]]] = {}
    stand: dict[str, dict[str, int]] = {}
    sizes: dict[str, Counter[str]] = {}
    waiting: list[ObservedPod] = []
    for pod in pods:
        if pod.has_ended:
            continue
        whose = "ours" if pod.deployment else "others"
        if pod.deployment:
            ours.add(f"{pod.namespace}/{pod.name}")
        for resource, count in pod.gpus.items():
            sizes.setdefault(resource, Counter())[str(count)] += 1
        if not pod.node:
            waiting.append(pod)
            continue
        _add(stand.setdefault(pod.node, {}), whose, 1)
        for resource, count in pod.gpus.items():
            _add(used.setdefault(pod.node, {}).setdefault(resource, {}), whose, count)
    for machine, cards in devices.items():
        there = used.setdefault(machine, {})
        for resource, counts in _claimed(cards, ours).items():
            # Who asked for `nvidia.com/gpu` is counted already, and has a claim as well.
            asked = there.get(resource, {})
            there[resource] = {
                whose: max(asked.get(whose, 0), counts.get(whose, 0)) for whose in asked | counts
            }
    waiting.sort(key=lambda pod: (-pod.gpu_count, not pod.deployment, pod.namespace, pod.name))
    return {
        "used": used,
        "pods": stand,
        "sizes": {resource: dict(found) for resource, found in sizes.items()},
        "pending": [_pending(pod) for pod in waiting[:MOST_PENDING]],
        "pending_count": len(waiting),
    }


def _claimed(cards: Iterable[Mapping[str, Any]], ours: Container[str]) -> dict[str, dict[str, int]]:
    """Return what claims hold, by resource; a card of which somebody has a part is no whole one any more."""
    found: dict[str, dict[str, int]] = {}
    for card in cards:
        holders = []
        for part in card["held"]:
            holders.append("ours" if any(user in ours for user in part["users"]) else "others")
            if part["profile"]:
                _add(found.setdefault(MIG_CLASS + part["profile"], {}), holders[-1], 1)
        if holders:
            _add(found.setdefault(NVIDIA, {}), "ours" if "ours" in holders else "others", 1)
    return found


def _add(counts: dict[str, int], whose: str, count: int) -> None:
    counts[whose] = counts.get(whose, 0) + count


def _pending(pod: ObservedPod) -> Mapping[str, Any]:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "deployment": pod.deployment,
        "gpus": pod.gpu_count,
        "why": pod.why,
    }
