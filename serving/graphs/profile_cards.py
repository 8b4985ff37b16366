"""The card of a process that measures a task: its memory, and the share of a batch for which it computes."""

import os
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

TRACED_CALLS = 5
NOTHING_BYTES = 64 << 20
"""Memory of a card that other processes may take meanwhile; a context takes more."""


class MeasuredCard:
    """The card that a task of this process may use. `kind`: its name; empty: it must run on cores."""

    def __init__(self, kind: str) -> None:
        self.kind, self._torch, self._before = kind, None, 0
        if not kind:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
            return
        import torch

        # Before this process has a context, which takes memory as well.
        self._before = _taken(torch)
        self._torch = torch

    @property
    def is_used(self) -> bool:
        """Whether the task has used the card until now."""
        return self._torch is not None and (self._torch.cuda.is_initialized() or self.used() > NOTHING_BYTES)

    def wait(self) -> None:
        if self._torch is not None and self._torch.cuda.is_initialized():
            self._torch.cuda.synchronize()

    def used(self) -> int:
        """Return the bytes that this process took of the card, its context included."""
        return 0 if self._torch is None else max(0, _taken(self._torch) - self._before)

    def busy_seconds(self, once: Callable[[int], None]) -> float:
        """Return for how long the card computes or copies in a call; 0 where it cannot be traced."""
        if self._torch is None or not self.is_used:
            return 0.0
        from torch.profiler import ProfilerActivity, profile

        once(0)
        try:
            with profile(activities=[ProfilerActivity.CUDA]) as traced:
                for number in range(TRACED_CALLS):
                    once(number)
            ranges = [
                (one.time_range.start, one.time_range.end)
                for one in traced.events() or ()
                if one.device_type == self._torch.autograd.DeviceType.CUDA
            ]
        except RuntimeError:  # a driver that allows no traces
            return 0.0
        return covered(ranges) / 1e6 / TRACED_CALLS


def _taken(torch: Any) -> int:
    """Return the bytes of the first visible card that are in use, by NVML, which makes no context."""
    try:
        library = import_module("pynvml")
        library.nvmlInit()
        first = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0]
        card = library.nvmlDeviceGetHandleByIndex(int(first) if first.isdecimal() else 0)
        return int(library.nvmlDeviceGetMemoryInfo(card).used)
    except Exception:  # of the library, which may be missing or refuse
        # It makes a context, so that whatever is loaded here counts as using the card.
        free, whole = torch.cuda.mem_get_info(0)
        return int(whole - free)


def driver_version() -> str:
    """Return the version of the cards' driver; empty where none says it."""
    try:
        library = import_module("pynvml")
        library.nvmlInit()
        said = library.nvmlSystemGetDriverVersion()
    except Exception:  # of the library, which may be missing or refuse
        return ""
    return said if isinstance(said, str) else said.decode()


def covered(ranges: Iterable[tuple[float, float]]) -> float:
    """Return the length of the union of ranges: streams side by side take the card once."""
    total, end = 0.0, float("-inf")
    for start, stop in sorted(ranges):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total
