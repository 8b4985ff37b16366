"""Time that a device takes for its work, apart from time in which its host was late to order it."""

import os
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch

from serving.checks.cpu_time import starved_seconds
from serving.checks.device import DeviceUnderTest


class Stopwatch:
    """Times works one by one: on a GPU by its own clock (CUDA events), on a processor by the wall clock.

    The median counts: a GPU that had to wait for its next order shows in single works alone.
    """

    def __init__(self, target: DeviceUnderTest) -> None:
        self._target = target
        self._seconds: list[float] = []
        self._began = time.monotonic()
        self._waited_before = starved_seconds(os.getpid())

    @property
    def works(self) -> int:
        return len(self._seconds)

    @property
    def elapsed_seconds(self) -> float:
        """Return the seconds of the wall clock since it was made."""
        return time.monotonic() - self._began

    @property
    def median_seconds(self) -> float:
        """Return the median seconds of a work."""
        return statistics.median(self._seconds)

    @property
    def starved_share(self) -> float:
        """Return the share of the elapsed time in which a thread of this process waited for a CPU."""
        waited = starved_seconds(os.getpid()) - self._waited_before
        return min(1.0, max(0.0, waited) / max(self.elapsed_seconds, 1e-9))

    def run(
        self, work: Callable[[], object], times: int, meanwhile: Callable[[], object] = lambda: None
    ) -> None:
        """Order the work so often at once, and wait until it is done. `meanwhile`: after the ordering."""
        if not self._target.is_gpu:
            for _ in range(times):
                began = time.monotonic()
                work()
                self._seconds.append(time.monotonic() - began)
            meanwhile()
            return
        with torch.cuda.device(self._target.device):
            make: Any = torch.cuda.Event
            marks = [make(enable_timing=True) for _ in range(times + 1)]
            marks[0].record()
            for mark in marks[1:]:
                work()
                mark.record()
        meanwhile()
        self._target.finish()
        self._seconds += [before.elapsed_time(after) / 1_000 for before, after in pairwise(marks)]
