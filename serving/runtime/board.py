"""The state of every process of a service, on one page of memory that all of them map."""

import mmap
import os
from enum import IntEnum

_WORDS = 8
WORD_BYTES = 8


class Phase(IntEnum):
    """Phase of a process."""

    GONE = 0
    LOADING = 1
    READY = 2


class Cell:
    """The words of one process; it alone writes them, aligned and whole. `since_ns`: monotonic, when the work
    that is going on began; 0: none is. CPU processes: `load` is 1 while it works on a request that somebody
    waits for. GPU processes: `load` counts what it has in its queue and at work.
    """

    def __init__(self, words: memoryview, number: int) -> None:
        self._words = words
        self._at = number * _WORDS

    @property
    def phase(self) -> int:
        return int(self._words[self._at])

    @phase.setter
    def phase(self, value: int) -> None:
        self._words[self._at] = value

    @property
    def load(self) -> int:
        return int(self._words[self._at + 1])

    @load.setter
    def load(self, value: int) -> None:
        self._words[self._at + 1] = value

    @property
    def since_ns(self) -> int:
        return int(self._words[self._at + 2])

    @since_ns.setter
    def since_ns(self, value: int) -> None:
        self._words[self._at + 2] = value

    @property
    def owner(self) -> int:
        """Return a ready GPU process's process id; who is connected to another one is out of date."""
        return int(self._words[self._at + 3])

    @owner.setter
    def owner(self, value: int) -> None:
        self._words[self._at + 3] = value

    def clear(self) -> None:
        """The process is gone."""
        self.phase = self.load = self.since_ns = self.owner = 0


class ProcessBoard:
    """Cells by number."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._words = memoryview(mmap.mmap(descriptor, os.fstat(descriptor).st_size)).cast("q")
        self.cells = [Cell(self._words, number) for number in range(len(self._words) // _WORDS)]

    @classmethod
    def create(cls, processes: int) -> "ProcessBoard":
        descriptor = os.memfd_create("slipway-board", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, processes * _WORDS * WORD_BYTES)
        return cls(descriptor)
