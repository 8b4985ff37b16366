"""What every child process of the front does first, and how it reports to it."""

import json
import logging
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from serving.leash import end_with_parent, parent_is_gone
from serving.logs import set_up
from serving.runtime.isolation import Limits, let_trace


@dataclass(frozen=True, kw_only=True)
class ChildOrder:
    """The order that a child is started with: JSON on its command line, sockets and pages as inherited
    descriptors.

    `python`: that of the app's environment; empty: the worker's. `limits`: as `isolation.Limits`.
    `channel`: a socket to the front. `board` and `cell`: its words. `listener`: of a GPU process, where CPU
    processes reach it. `online`: the cells below it belong to CPU processes whose requests somebody waits
    for. `graph`: memory and cores of a process of a task graph.
    """

    kind: str
    file: str
    name: str
    channel: int
    board: int
    cell: int
    parent: int
    listener: int = -1
    online: int = 0
    arena_bytes: int = 0
    python: str = ""
    limits: Mapping[str, int] = field(default_factory=dict)
    graph: Mapping[str, Any] = field(default_factory=dict)

    def argv(self) -> list[str]:
        return [self.python or sys.executable, "-m", "serving.runtime.child", json.dumps(vars(self))]

    @property
    def path(self) -> Path:
        return Path(self.file)


def run_child(order: ChildOrder, work: Callable[[ChildOrder, socket.socket], None]) -> None:
    """Ends with the front, even by SIGKILL. What cannot be loaded is told to the front in words."""
    end_with_parent(signal.SIGKILL)
    if parent_is_gone(order.parent):
        os._exit(0)
    let_trace(order.parent)
    Limits(**order.limits).apply()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the front, which drains
    set_up(order.name)
    channel = socket.socket(fileno=order.channel)
    try:
        work(order, channel)
    except Exception as error:
        logging.getLogger(__name__).error("%s failed", order.name, exc_info=error)
        tell(channel, {"failed": reason_of(error, order.path)})
        os._exit(1)
    os._exit(0)


def reason_of(error: BaseException, file: Path) -> str:
    """The error with the line of the user's file that it comes from."""
    lines = [
        entry.lineno for entry in traceback.extract_tb(error.__traceback__) if entry.filename == str(file)
    ]
    if isinstance(error, SyntaxError):
        lines = [error.lineno]
    where = f"{file.name}, line {lines[-1]}: " if lines else ""
    kind = type(error).__name__
    return where + (str(error) if kind == "AppError" else f"{kind}: {error}")[:1_500]


def tell(channel: socket.socket, document: dict[str, Any], body: bytes = b"") -> None:
    """Send one message to the front; it may be gone already."""
    from serving.runtime.frames import Frame, pack_frame

    try:
        channel.sendall(pack_frame(Frame.STATE, document, body))
    except OSError:
        os._exit(0)
