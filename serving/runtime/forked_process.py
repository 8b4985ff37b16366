"""Processes that the template was forked for, as the front sees them: its children by adoption."""

import contextlib
import json
import os
import socket
from collections.abc import Collection
from pathlib import Path

from serving.runtime.children import ChildOrder
from serving.runtime.readable import until_readable


def order_fork(template: socket.socket, order: ChildOrder) -> None:
    """Asks for a fork that works by the order. Raises OSError."""
    socket.send_fds(template, [json.dumps(vars(order)).encode()], [order.channel])


class ForkedProcess:
    """The part of `asyncio.subprocess.Process` that is needed."""

    def __init__(self, pid: int) -> None:
        """Raises OSError."""
        if not pid:
            raise OSError("there can be no further process")
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    async def wait(self) -> int:
        """Its status; below 0: the signal that ended it."""
        try:
            await until_readable(self._descriptor)
        finally:
            os.close(self._descriptor)
        try:
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, os.WNOHANG)[1])
        except ChildProcessError:
            return 255  # it ended before it was adopted


def reap_orphans(known: Collection[int | None], seen: Collection[int]) -> set[int]:
    """Reap what the service's own code left behind, where it has ended and was `seen` so before; return what
    has ended by now.
    """
    ended = {pid for pid in _children() if pid not in known and _has_ended(pid)}
    for pid in ended.intersection(seen):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return ended


def _children() -> list[int]:
    return [
        int(pid) for task in Path("/proc/self/task").glob("*/children") for pid in task.read_text().split()
    ]


def _has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False
