"""The template of a service's CPU processes: imports the app once and is forked for each of them.

The forks share its memory until they write, and start in milliseconds. They become children of the front,
so the template may die without them. Where an app does at its top what forks cannot share, the front is told
so and has each CPU process import it.
"""

import gc
import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from serving.runtime.children import ChildOrder, run_child, tell
from serving.runtime.cpu_process import serve_loaded
from serving.runtime.frames import Meta
from serving.runtime.loaded_app import LoadedApp

ADOPTED_WITHIN_SECONDS = 5.0
_PID = struct.Struct("<q")
Work = Callable[[ChildOrder, socket.socket], None]


class Forkable(Protocol):
    """A file of the user's that has been run."""

    @property
    def description(self) -> Meta: ...


Loaded = TypeVar("Loaded", bound=Forkable)


def run(order: ChildOrder, channel: socket.socket) -> None:
    serve_forks(order, channel, load=LoadedApp, work=serve_loaded)


def serve_forks(
    order: ChildOrder,
    channel: socket.socket,
    *,
    load: Callable[[Path], Loaded],
    work: Callable[[Loaded, ChildOrder, socket.socket], None],
) -> None:
    """Loads the user's file, then forks a process that does `work` with it for each order that comes."""
    before = _connections()
    app = load(order.path)
    obstacle = _obstacle(_connections() - before)
    tell(channel, {"described": app.description, "obstacle": obstacle})
    if obstacle:
        return
    gc.collect()
    gc.freeze()  # collecting would write to the pages that are shared
    tell(channel, {"ready": {}})
    while True:
        data, descriptors, _, _ = socket.recv_fds(channel, 65_536, 1)
        if not data:
            return
        pid = _fork(ChildOrder(**json.loads(data)), descriptors[0], channel, partial(work, app))
        os.close(descriptors[0])
        tell(channel, {"forked": pid})


def _fork(order: ChildOrder, descriptor: int, channel: socket.socket, work: Work) -> int:
    """The number of a new process in a session of its own; 0: there can be none. Its parent ends at once, so
    that the front adopts it."""
    reading, writing = os.pipe()
    if (between := os.fork()) == 0:
        try:
            if os.fork() == 0:
                os.setsid()
                os.write(writing, _PID.pack(os.getpid()))
                os.close(reading)
                os.close(writing)
                channel.close()
                _become(order, descriptor, work)
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(between, 0)
    told = os.read(reading, _PID.size)
    os.close(reading)
    return int(_PID.unpack(told)[0]) if told else 0


def _become(order: ChildOrder, descriptor: int, work: Work) -> None:
    end = time.monotonic() + ADOPTED_WITHIN_SECONDS
    while os.getppid() != order.parent and time.monotonic() < end:
        time.sleep(0.000_5)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()  # or all of them would draw the same numbers
    adopted = ChildOrder(**(vars(order) | {"channel": descriptor}))
    run_child(adopted, work)


def _obstacle(connections: set[str]) -> str:
    """Why a process that has run the app's file must not be forked; empty: it may be."""
    if threading.active_count() > 1:
        return "it starts threads at its top"
    if connections:
        return "it opens connections at its top"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "it uses the GPU at its top"
    # OpenBLAS ends its threads before a fork and starts them anew; those that are left know of no forks.
    if (trial := os.fork()) == 0:
        os._exit(0)
    os.waitpid(trial, 0)
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        return "a library starts threads at its top"
    return ""


def _connections() -> set[str]:
    """Sockets of this process, by number."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            target = str(link.readlink())
        except OSError:
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found
