"""GPUs of each type that a cluster has free, used and fragmented. Pure.

Used: set aside for pods, ours and others'; a pod that has ended holds none. Free: on machines that take new
pods. Fragmented, of the free ones: what is left over when every machine takes as many pods of the usual size
as fit; no such pod can use them, because they are spread over machines. The usual size is what pods of that
type ask for most often, the larger of two; without any pod it is one GPU, and nothing is fragmented. (After
the fragmentation measure of Weng et al., "Beware of Fragmentation", USENIX ATC 2023, for whole GPUs and one
size of pod.)
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clusters.backends.gpu_names import is_claimed, is_slice, profile_of


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCapacity:
    """GPUs that one machine offers and has allocated."""

    name: str
    gpu_type: str
    """As its driver or its labels name the product; empty: not known."""
    memory_bytes: int = 0
    """Of one GPU."""
    sharing: str = ""
    cards: int = 0
    """GPUs that it has, however they are shared."""
    allocatable: Mapping[str, int]
    """GPUs by the name under which the cluster counts them."""
    used: Mapping[str, Mapping[str, int]]
    """By the same name: `ours` and `others`."""
    takes_pods: bool = True
    """It is ready and not cordoned."""

    @property
    def free(self) -> dict[str, int]:
        """Return what no pod has. Parts that pods could claim are left out: they are of cards that count
        whole."""
        return {
            resource: max(0, count - sum(self.used.get(resource, {}).values()))
            for resource, count in self.allocatable.items()
            if not is_claimed(resource)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCapacity:
    """Capacity of one type of GPU, or of slices of it."""

    gpu_type: str
    resource: str
    memory_bytes: int
    sharing: str
    machines: int
    total: int
    ours: int
    others: int
    free: int
    fragmented: int
    unavailable: int
    """Unused ones on machines that take no new pods."""
    usual: int
    """Size of a pod, in GPUs."""
    largest: int
    """So many a single pod can have now."""

    @property
    def used(self) -> int:
        return self.ours + self.others


def capacity_of(
    machines: Iterable[MachineCapacity], sizes: Mapping[str, Mapping[str, int]]
) -> list[GpuCapacity]:
    """`sizes`: of the pods that hold or want GPUs, how many ask for so many, by name of the resource; sizes
    are text, as in JSON. The types with the most GPUs come first."""
    groups: dict[tuple[str, str], list[MachineCapacity]] = {}
    for machine in machines:
        for resource, count in machine.allocatable.items():
            if count or machine.used.get(resource):
                groups.setdefault((type_of(machine.gpu_type, resource), resource), []).append(machine)
    found = [
        _capacity(name, resource, rooms, usual_size(sizes.get(resource, {})))
        for (name, resource), rooms in groups.items()
    ]
    return sorted(found, key=lambda one: (-one.total, one.gpu_type))


def type_of(product: str, resource: str) -> str:
    """`NVIDIA H100 80GB HBM3`, or a slice of it: `NVIDIA H100 80GB HBM3 MIG 1g.10gb`."""
    name = product or "GPU"
    return " ".join((name, "MIG", profile_of(resource))) if is_slice(resource) else name


def usual_size(sizes: Mapping[str, int]) -> int:
    """Return the most frequent request, the larger of two; 1 without any."""
    counted = Counter({int(size): count for size, count in sizes.items() if int(size) > 0})
    return max(counted, key=lambda size: (counted[size], size), default=1)


def _capacity(name: str, resource: str, rooms: list[MachineCapacity], usual: int) -> GpuCapacity:
    total = ours = others = free = fragmented = unavailable = largest = 0
    for room in rooms:
        there = room.allocatable.get(resource, 0)
        used = room.used.get(resource, {})
        total += there
        # One machine's own processes may share GPUs: they use no more than there are.
        mine = min(there, used.get("ours", 0))
        theirs = min(there - mine, used.get("others", 0))
        ours += mine
        others += theirs
        left = there - mine - theirs
        if not room.takes_pods:
            unavailable += left
            continue
        free += left
        fragmented += left % usual
        largest = max(largest, left)
    first = rooms[0]
    return GpuCapacity(
        gpu_type=name, resource=resource, memory_bytes=first.memory_bytes, sharing=first.sharing,
        machines=len(rooms), total=total, ours=ours, others=others, free=free, fragmented=fragmented,
        unavailable=unavailable, usual=usual, largest=largest,
    )  # fmt: skip
