"""Processes of tasks as the executor sees them: what they are given, what they hold, how they are placed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from serving.graphs.item_state import ConstantRef, InputRef, ListRef, PackedRef, Ref
from serving.graphs.memory import ArrayPlace, MemoryPool, PackedValue
from serving.graphs.plan import TaskPlan, gpu_of
from serving.graphs.scheduler import Lease
from serving.graphs.wire import INLINE, BodyWriter
from serving.runtime.frames import Frame, Meta
from serving.runtime.supervised_child import Child


@dataclass(eq=False)
class Replica:
    """A process of a task. `arena`: the memory file that it writes to."""

    task: str
    number: int
    child: Child
    plan: TaskPlan
    arena: int
    is_ready: bool = False
    is_retiring: bool = False
    lease: Lease | None = None
    known: set[int] = field(default_factory=set)
    """Memory files that it maps."""
    held: dict[int, list[PackedValue]] = field(default_factory=dict)
    """By lease that is over: values that its code still refers to."""

    @property
    def is_idle(self) -> bool:
        return self.is_ready and self.lease is None and not self.is_retiring

    def placement(self) -> tuple[Any, ...]:
        """Facts that only a new process can change."""
        return self.plan.threads, self.plan.device, gpu_of(self.plan, self.number)

    def cores(self) -> list[int]:
        return cores_of(self.plan, self.number)


def cores_of(plan: TaskPlan, number: int) -> list[int]:
    """The cores of one process: `threads` of the plan's, in turn; empty: all of the machine."""
    if not plan.cores:
        return []
    first = number * plan.threads
    return sorted({plan.cores[(first + more) % len(plan.cores)] for more in range(plan.threads)})


class RequestWriter:
    """The message that hands a lease to a process. `pinned`: values that it will read."""

    def __init__(self, pool: MemoryPool, replica: Replica) -> None:
        self._pool, self._replica = pool, replica
        self.body = BodyWriter()
        self.pinned: list[PackedValue] = []
        self._arenas: set[int] = set()

    def meta(self, lease: int, units: list[Meta], forget: list[int]) -> Meta:
        fresh = self._arenas - self._replica.known
        self._replica.known |= fresh
        arenas = [(number, self._pool.descriptor(number), self._pool.size) for number in sorted(fresh)]
        return {"id": lease, "units": units, "arenas": arenas, "forget": forget}

    def ref(self, ref: Ref) -> list[Any]:
        if isinstance(ref, ListRef):
            return ["l", [self.ref(one) for one in ref.elements]]
        if isinstance(ref, ConstantRef):
            return ["o", ref.node, ref.path]
        if isinstance(ref, InputRef):
            return ["i", ref.name, ref.path, self._beside(ref.packed)]
        assert isinstance(ref, PackedRef)  # noqa: S101 - flags and broken parts are never sent
        return ["p", self.body.add(ref.packed.pickled), self._beside(ref.packed)]

    def _beside(self, value: PackedValue) -> list[tuple[int, int, int]]:
        value.pins += 1
        self.pinned.append(value)
        places = []
        for one in value.beside:
            if isinstance(one, ArrayPlace):
                self._arenas.add(one.arena)
                places.append((one.arena, one.offset, one.length))
            else:
                places.append((INLINE, 0, self.body.add(one)))
        return places


class ReplicaCall:
    """Work of a process; its `Child` tells it what comes back, or that the process is gone. `pinned`:
    values that it reads."""

    def __init__(
        self,
        number: int,
        replica: Replica,
        lease: Lease,
        pinned: list[PackedValue],
        *,
        answered: "Callable[[ReplicaCall, Meta, bytes], None]",
        lost: "Callable[[ReplicaCall, str], None]",
    ) -> None:
        self.number, self.replica, self.lease, self.pinned = number, replica, lease, pinned
        self._answered, self._lost = answered, lost

    def on_frame(self, kind: Frame, meta: Meta, body: bytes) -> None:
        if kind is Frame.ANSWER and meta.get("id") == self.number:
            self.replica.child.call = self.replica.lease = None
            self._answered(self, meta, body)

    def lost(self, reason: str) -> None:
        self.replica.lease = None
        self._lost(self, reason)
