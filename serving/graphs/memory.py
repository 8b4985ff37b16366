"""Memory files of a run, and the values that lie in them.

The executor makes each process's memory file and holds it, so what a process has made outlives it, and all of
it is gone with the executor, however that ends.
"""

import mmap
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from serving.graphs.item_state import BrokenRef, FlagRef, ListRef, PackedRef, Ref
from serving.graphs.wire import INLINE, BodyReader
from serving.runtime.arena import Arena, ArenaUnavailable, create_memory_file

ENTRY = 0
"""Number of the executor's own file, in which encoded inputs lie."""


@dataclass(slots=True)
class ArrayPlace:
    """Bytes in a memory file."""

    arena: int
    block: int
    offset: int
    length: int


@dataclass(eq=False, slots=True)
class PackedValue:
    """A value that nobody here opens: its pickle, and its large arrays, in memory files or as they came.
    `pins`: processes that read it right now."""

    pickled: bytes
    beside: list[ArrayPlace | bytes]
    suffix: str = ""
    pins: int = 0
    is_doomed: bool = False

    @property
    def size(self) -> int:
        return len(self.pickled) + sum(
            one.length if isinstance(one, ArrayPlace) else len(one) for one in self.beside
        )


@dataclass
class _MemoryFile:
    descriptor: int
    memory: mmap.mmap
    values: int = 0
    is_retired: bool = False


@dataclass
class MemoryPool:
    """`size`: bytes of each file, of which only what is written is taken; 0: all travels in messages."""

    size: int
    used: int = 0
    """Bytes of values that are alive."""
    retired: list[int] = field(default_factory=list)
    """Numbers of files that are closed: who maps them may let go."""

    def __post_init__(self) -> None:
        self._files: dict[int, _MemoryFile] = {}
        self._next = ENTRY
        self._entry: Arena | None = None
        self.notice = ""
        try:
            number = self.create()
            if number != INLINE:
                self._entry = Arena(self.size, os.dup(self._files[number].descriptor))
        except ArenaUnavailable as error:
            self.size, self.notice = (
                0,
                f"no shared memory ({error}): values travel in messages, which is slower",
            )

    def create(self) -> int:
        """The number of a new file, or INLINE where there is no memory. Raises ArenaUnavailable."""
        if not self.size:
            return INLINE
        descriptor = create_memory_file(self.size)
        try:
            memory = mmap.mmap(descriptor, self.size)
        except (OSError, ValueError) as error:
            os.close(descriptor)
            raise ArenaUnavailable(f"{self.size} bytes cannot be mapped: {error}") from None
        number, self._next = self._next, self._next + 1
        self._files[number] = _MemoryFile(descriptor, memory)
        return number

    def descriptor(self, number: int) -> int:
        return self._files[number].descriptor if number != INLINE else -1

    def retire(self, number: int) -> None:
        """Its process is gone: it is closed with the last value in it."""
        if number != INLINE:
            self._files[number].is_retired = True
            self._close_if_empty(number)

    def _close_if_empty(self, number: int) -> None:
        file = self._files[number]
        if file.is_retired and not file.values:
            del self._files[number]
            file.memory.close()
            os.close(file.descriptor)
            self.retired.append(number)

    def close(self) -> None:
        for file in self._files.values():
            os.close(file.descriptor)
        self._files.clear()
        if self._entry is not None:
            self._entry.close()

    # Values

    def add_input(self, data: bytes) -> PackedValue:
        beside: ArrayPlace | bytes = data
        has_memory = self._entry is not None and data
        place = self._entry.share(np.frombuffer(data, np.uint8)) if has_memory else None  # type: ignore[union-attr]
        if place is not None:
            beside = ArrayPlace(ENTRY, *place)
        return self._kept(PackedValue(b"", [beside]))

    def _kept(self, value: PackedValue) -> PackedValue:
        self.used += value.size
        for place in value.beside:
            if isinstance(place, ArrayPlace):
                self._files[place.arena].values += 1
        return value

    def read_part(self, document: list[Any], body: BodyReader, arena: int) -> Ref:
        """A part as a process answered it. `arena`: the file that it writes to."""
        kind, *more = document
        if kind == "x":
            return BrokenRef(more[0])
        if kind == "f":
            return FlagRef(more[0])
        if kind == "l":
            return ListRef(tuple(self.read_part(one, body, arena) for one in more[0]))
        suffix = more.pop(0) if kind == "e" else ""
        pickled = bytes(body.take(more.pop(0))) if kind == "p" else b""
        beside: list[ArrayPlace | bytes] = [
            bytes(body.take(length)) if block == INLINE else ArrayPlace(arena, block, offset, length)
            for block, offset, length in more[0]
        ]
        return PackedRef(self._kept(PackedValue(pickled, beside, suffix)))

    def read_output(self, value: PackedValue) -> tuple[str, bytes]:
        (place,) = value.beside
        if isinstance(place, bytes):
            return value.suffix, place
        memory = self._files[place.arena].memory
        return value.suffix, memory[place.offset : place.offset + place.length]

    def free(self, value: PackedValue) -> None:
        """Nobody needs it any more; it goes when nobody reads it."""
        if value.pins:
            value.is_doomed = True
            return
        self.used -= value.size
        for place in value.beside:
            if isinstance(place, ArrayPlace):
                file = self._files[place.arena]
                file.memory[place.block] = 0
                file.values -= 1
                self._close_if_empty(place.arena)

    def unpin(self, value: PackedValue) -> None:
        value.pins -= 1
        if value.is_doomed and not value.pins:
            self.free(value)
