"""Shared memory that one process writes and another reads without copying.

An arena is a memory file without a name (`memfd_create`): it needs no room in /dev/shm, no resource tracker,
and the kernel frees it with the last process that maps it, however that ended. Its owner allocates blocks; a
reader gives a block back by clearing one byte, when the last array that looks into the block is gone.
"""

import errno
import mmap
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

BLOCKS = 4_096
"""The most blocks of an arena at a time; their state bytes fill its first page."""
ALIGNMENT = 64
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class ArenaUnavailable(Exception):
    """This system gives no shared memory: messages carry their arrays inline."""


class ArenaPlace(NamedTuple):
    """The place of an array in an arena."""

    block: int
    offset: int
    length: int


@dataclass(slots=True)
class _Block:
    begin: int
    end: int
    number: int
    is_held: bool
    """The owner's own array is still there."""

    def let_go(self) -> None:
        self.is_held = False


class _Lent(weakref.ref[Bytes]):
    """Says when the last array over a block is gone. (`weakref.finalize` does it at ten times the price.)"""

    __slots__ = ("ended",)
    ended: Callable[[], None]


_lent: dict[int, _Lent] = {}


def _ended(lent: weakref.ref[Bytes]) -> None:
    del _lent[id(lent)]
    lent.ended()  # type: ignore[attr-defined]


def _lend(memory: mmap.mmap, offset: int, length: int, ended: Callable[[], None]) -> Bytes:
    # From the memory itself: numpy lets go of an array between a view and the array that it was cut from.
    chunk = np.frombuffer(memory, np.uint8, length, offset)
    lent = _Lent(chunk, _ended)
    lent.ended = ended
    _lent[id(lent)] = lent
    return chunk


def create_memory_file(size: int) -> int:
    """The descriptor of an arena without an owner. Raises ArenaUnavailable."""
    try:
        descriptor = os.memfd_create("slipway-arena", os.MFD_CLOEXEC)
    except (AttributeError, OSError) as error:
        raise ArenaUnavailable(f"memfd_create: {error}") from None
    try:
        os.ftruncate(descriptor, size)
    except (OSError, ValueError) as error:
        os.close(descriptor)
        raise ArenaUnavailable(f"{size} bytes of shared memory: {error}") from None
    return descriptor


class Arena:
    """The owner's side. Not for use by several threads."""

    descriptor = -1

    def __init__(self, size: int, descriptor: int = -1) -> None:
        """`size` in bytes; only what is written takes memory. `descriptor`: of a memory file of that size
        that nobody has written to, which it takes over. Raises ArenaUnavailable."""
        self.descriptor = -1  # closed, if there is no memory
        self.descriptor = descriptor if descriptor >= 0 else create_memory_file(size)
        try:
            self._memory = mmap.mmap(self.descriptor, size)
        except (OSError, ValueError) as error:
            self.close()
            raise ArenaUnavailable(f"{size} bytes of shared memory: {error}") from None
        self.size = size
        self._bytes = np.frombuffer(self._memory, np.uint8)
        self._base = self._bytes.__array_interface__["data"][0]
        self._blocks: list[_Block] = []
        self._unused = list(range(BLOCKS - 1, -1, -1))

    def close(self) -> None:
        """Closes the descriptor; arrays that are still referred to stay readable."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        self.close()

    def allocate(self, length: int) -> Bytes | None:
        """Bytes to write into, held until nothing refers to them any more; None when there is no room."""
        block = self._take(length)
        if block is None:
            return None
        block.is_held = True
        return _lend(self._memory, block.begin, length, block.let_go)

    def share(self, data: Bytes) -> ArenaPlace | None:
        """Marks the block of `data` as being read; copies it into one if it lies elsewhere or is read
        already. None when there is no room."""
        offset = data.__array_interface__["data"][0] - self._base
        length = data.nbytes
        if 0 <= offset < self.size:
            for block in self._blocks:
                if block.begin <= offset < block.end and not self._memory[block.number]:
                    self._memory[block.number] = 1
                    return ArenaPlace(block.number, offset, length)
        fresh = self._take(length)
        if fresh is None:
            return None
        self._bytes[fresh.begin : fresh.begin + length] = data
        self._memory[fresh.number] = 1
        return ArenaPlace(fresh.number, fresh.begin, length)

    @property
    def used(self) -> int:
        """Bytes in blocks that somebody still writes or reads."""
        self._reclaim()
        return sum(block.end - block.begin for block in self._blocks)

    def _reclaim(self) -> None:
        kept = []
        for block in self._blocks:
            if block.is_held or self._memory[block.number]:
                kept.append(block)
            else:
                self._unused.append(block.number)
        self._blocks = kept

    def _take(self, length: int) -> _Block | None:
        """The lowest room that is large enough: pages that were written lately are warm."""
        self._reclaim()
        wanted = -(-max(length, 1) // ALIGNMENT) * ALIGNMENT
        begin = BLOCKS
        for index, block in enumerate([*self._blocks, None]):
            end = block.begin if block else self.size
            if end - begin >= wanted:
                if not self._unused:
                    return None
                fresh = _Block(begin, begin + wanted, self._unused.pop(), is_held=False)
                self._blocks.insert(index, fresh)
                return fresh
            begin = block.end if block else end
        return None


class ArenaView:
    """The reader's side."""

    def __init__(self, descriptor: int, size: int) -> None:
        """Takes over the descriptor. Raises ArenaUnavailable."""
        try:
            if os.fstat(descriptor).st_size < size:
                raise OSError(errno.EINVAL, "it is smaller than was said")
            self._memory = mmap.mmap(descriptor, size)
        except (OSError, ValueError) as error:
            raise ArenaUnavailable(f"an arena cannot be mapped: {error}") from None
        finally:
            os.close(descriptor)

    @property
    def bytes(self) -> Bytes:
        """All of it, for whoever registers the memory with a device."""
        return np.frombuffer(self._memory, np.uint8)

    def open(self, place: ArenaPlace) -> Bytes:
        """The bytes themselves. The block goes back to its owner when nothing refers to them any more."""
        return self.borrow(place, partial(self.give_back, place.block))

    def borrow(self, place: ArenaPlace, ended: Callable[[], None]) -> Bytes:
        """The bytes themselves, of a block that somebody else gives back. `ended` is called when nothing
        refers to them any more."""
        return _lend(self._memory, place.offset, place.length, ended)

    def give_back(self, block: int) -> None:
        """Lets the owner write there again."""
        self._memory[block] = 0
