"""Slots of the workers of this machine: a port for each, and its GPUs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from clusters.backends.base import CannotRun
from clusters.backends.embedded.desired import DesiredDeployment, DesiredStore, WorkerSlot
from clusters.backends.embedded.machine import gpus, port_is_free


class SlotAllocator:
    def __init__(self, desired: DesiredStore, ports: tuple[int, int]) -> None:
        """`ports`: first and last that workers may get."""
        self._desired = desired
        self._ports = ports

    def slots_for(self, desired: DesiredDeployment, alive: Mapping[str, bool]) -> dict[int, WorkerSlot]:
        """Return a slot for every worker that there should be, and those of workers that still
        run.

        `alive`: of every program that there is, whether it has a process. A worker that has none gets
        another port when somebody else has taken its own.
        """
        others = [
            other
            for other in self._desired.load_all()
            if other.spec.name != desired.spec.name and other.removed_at is None
        ]
        taken = {slot.port for other in others for slot in other.slots.values()}
        slots: dict[int, WorkerSlot] = {}
        for ordinal in sorted({*desired.slots, *desired.ordinals}):
            name = f"{desired.spec.name}-{ordinal}"
            if name not in alive and ordinal not in desired.ordinals:
                continue
            slot = desired.slots.get(ordinal)
            if slot is None or not (alive.get(name) or (slot.port not in taken and port_is_free(slot.port))):
                held = {slot.port for slot in (*slots.values(), *desired.slots.values())}
                slot = WorkerSlot(self._free_port(taken | held), slot.gpus if slot else ())
            slots[ordinal] = slot
        return self._with_gpus(desired, slots, others)

    def _with_gpus(
        self, desired: DesiredDeployment, slots: dict[int, WorkerSlot], others: list[DesiredDeployment]
    ) -> dict[int, WorkerSlot]:
        """Return the slots; one without GPUs gets those that the fewest others use."""
        if desired.spec.device == "cpu" or all(slot.gpus for slot in slots.values()):
            return slots
        present = [gpu.index for gpu in gpus() or ()]
        everyone = [
            *slots.values(),
            *(slot for other in others for slot in other.slots.values()),
        ]
        uses = Counter(gpu for slot in everyone for gpu in slot.gpus)
        for ordinal, slot in slots.items():
            if not slot.gpus:
                least_used = sorted(present, key=lambda gpu: (uses[gpu], gpu))[: desired.spec.resources.gpus]
                slots[ordinal] = replace(slot, gpus=tuple(sorted(least_used)))
                uses.update(least_used)
        return slots

    def _free_port(self, taken: set[int]) -> int:
        """Return the next free port after the one given out last: a gateway may still know what was behind a
        port.
        """
        first, last = self._ports
        count = last - first + 1
        begin = self._desired.last_port() + 1 - first
        for step in range(count):
            port = first + (begin + step) % count
            if port not in taken and port_is_free(port):
                self._desired.note_port(port)
                return port
        raise CannotRun(f"No port from {first} to {last} is free for a worker. Widen SLIPWAY_WORKER_PORTS.")
