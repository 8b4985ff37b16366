"""Capacity of other machines for the pods of one that leaves service."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from clusters.capacities import capacity, rooms_of
from clusters.capacity import MachineCapacity
from clusters.models import Node


@dataclass(frozen=True, slots=True)
class Remaining:
    """Free GPUs of the machine's own type on machines of its cluster that take new pods."""

    gpu_type: str
    free: int
    """GPUs, before any of the pods has come."""
    wanted: int
    """GPUs that the pods want."""
    pods: int
    placed: int
    """Pods that find a machine, the largest first."""
    is_stale: bool
    """What is known of pods and machines is old."""

    @property
    def suffices(self) -> bool:
        return self.placed == self.pods

    @property
    def words(self) -> str:
        given = {
            "free": self.free,
            "type": self.gpu_type or _("GPU"),
            "wanted": self.wanted,
            "placed": self.placed,
            "pods": self.pods,
        }
        if not self.pods:
            return ""
        if self.suffices:
            said = _("%(wanted)d GPUs leave; other machines have %(free)d free of %(type)s.") % given
        else:
            said = (
                _(
                    "%(wanted)d GPUs leave, other machines have %(free)d free of %(type)s. "
                    "%(placed)d of %(pods)d pods find a place, the others wait."
                )
                % given
            )
        old = _("What is known of free GPUs is old.") if self.is_stale else ""
        return f"{said} {old}".strip()


def remaining(node: Node, gpus_of_pods: Iterable[Mapping[str, int] | int]) -> Remaining:
    """`gpus_of_pods`: of each pod that leaves, its GPUs by the name under which the cluster counts them; or
    how many, by the name that the machine itself offers. Four queries.
    """
    seen = capacity(node.cluster)
    rooms = rooms_of(node.cluster, seen.occupancy)
    own = next((room for room in rooms if room.name == node.name), None)
    others = [
        room
        for room in rooms
        if room.takes_pods and room.name != node.name and (own is None or room.gpu_type == own.gpu_type)
    ]
    usual = next(iter(own.allocatable if own else ()), "gpu")
    asked = [{usual: one} if isinstance(one, int) else dict(one) for one in gpus_of_pods]
    wanted = [one for one in asked if sum(one.values())]
    return Remaining(
        gpu_type=own.gpu_type if own else "",
        free=sum(sum(room.free.values()) for room in others),
        wanted=sum(sum(one.values()) for one in wanted),
        pods=len(wanted),
        placed=placed(others, wanted),
        is_stale=seen.is_stale,
    )


def placed(rooms: Sequence[MachineCapacity], pods: Iterable[Mapping[str, int]]) -> int:
    """Return how many of the pods find a machine, the largest first, each on the fullest that still has
    room.
    """
    return sum(each_placed(rooms, sorted(pods, key=lambda one: -sum(one.values()))))


def each_placed(rooms: Sequence[MachineCapacity], pods: Iterable[Mapping[str, int]]) -> list[bool]:
    """Return which of the pods find a machine in this order; one without GPUs finds any."""
    free = [room.free for room in rooms]
    found = []
    for pod in pods:
        fitting = [one for one in free if all(one.get(name, 0) >= wants for name, wants in pod.items())]
        found.append(bool(fitting))
        if fitting:
            best = min(fitting, key=lambda one: sum(one.values()))
            for name, wants in pod.items():
                best[name] = best.get(name, 0) - wants
    return found
