"""Processes that end when the one that started them is gone, even by SIGKILL (Linux)."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# Looked up now: `end_with_parent` also runs between fork and exec, where little may be done.
_prctl = ctypes.CDLL(None, use_errno=True).prctl if sys.platform == "linux" else None


def end_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """Have this process get the signal when its parent dies, from now on; nothing where the system cannot."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)


def parent_is_gone(parent_pid: int) -> bool:
    """Whether the parent had died before `end_with_parent` could take hold."""
    return os.getppid() != parent_pid


def adopt_orphans() -> bool:
    """Adopt processes below this one when their parents end, from now on; return whether the system can."""
    return _prctl is not None and _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
