"""One tensor from a process to another and a small answer back: the runtime beside what others do."""

import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from perf.required import RequiredFigure, at_most
from serving.runtime.api import GpuModel, runtime
from serving.runtime.board import Board, Phase
from serving.runtime.children import ChildOrder
from serving.runtime.gpu_process import GpuProcess
from serving.runtime.links import ARENA_BYTES, listener
from serving.runtime.models import Models

SIZES = (600_000, 4_800_000)
ROUNDS = 400
Call = Callable[[Any], Any]


class Touch(GpuModel):
    """Reads one number of the array."""

    def touch(self, array: Any) -> float:
        return float(array[-1])


@contextmanager
def models(model: type[GpuModel]) -> Iterator[Models]:
    """The model in a process of its own, and this process as one that calls it."""
    board, listening = Board.create(16), listener()
    order = ChildOrder(
        kind="gpu", file="", name=model.__name__, channel=-1, board=board.descriptor, cell=8,
        parent=os.getpid(), online=1, arena_bytes=ARENA_BYTES,
    )  # fmt: skip
    if (child := os.fork()) == 0:
        try:
            loaded = model()
            loaded.load({})
            process = GpuProcess(loaded, listening, board, order)
            board.cells[8].owner, board.cells[8].phase = os.getpid(), Phase.READY
            process.serve()
        finally:
            os._exit(1)
    while board.cells[8].phase != Phase.READY:
        time.sleep(0.01)
    calling = Models({model.__name__: [(listening.getsockname().hex(), 8)]}, board, arena_bytes=ARENA_BYTES)
    token = runtime.set(calling)  # type: ignore[arg-type]
    board.cells[0].load = 1
    try:
        yield calling
    finally:
        runtime.reset(token)
        os.kill(child, 9)
        os.waitpid(child, 0)


def p50(call: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Microseconds."""
    for _ in range(rounds // 10):
        call()
    seen = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        seen.append(time.perf_counter() - began)
    return statistics.median(seen) * 1e6


def ours(size: int) -> dict[str, float]:
    """Written in place, and copied into the slot."""
    with models(Touch) as calling:
        handle = calling.handle(Touch)
        array = handle.empty((size // 4,))
        array[:] = 1
        elsewhere = np.ones(size // 4, np.float32)
        return {
            "runtime, written in place": p50(lambda: handle.run("touch", array)),
            "runtime, copied into the slot": p50(lambda: handle.run("touch", elsewhere)),
        }


def _echo(inbox: Any, outbox: Any) -> None:
    while (array := inbox.get()) is not None:
        outbox.put(float(array[-1]))


def queue(size: int) -> dict[str, float]:
    inbox, outbox = multiprocessing.Queue(), multiprocessing.Queue()  # type: ignore[var-annotated]
    process = multiprocessing.Process(target=_echo, args=(inbox, outbox))
    process.start()
    array = np.ones(size // 4, np.float32)

    def call() -> None:
        inbox.put(array)
        outbox.get()

    try:
        return {"mp.Queue": p50(call)}
    finally:
        inbox.put(None)
        process.join()


def mosec(size: int) -> dict[str, float]:
    """What a stage of it does for another one: pickle, and a Unix socket with its protocol's reads."""
    import pickle
    import struct

    here, there = socket.socketpair()
    if (child := os.fork()) == 0:
        here.close()
        stream = there.makefile("rb", buffering=0)
        while head := stream.read(4):
            (length,) = struct.unpack("<I", head)
            body = bytearray(length)
            view = memoryview(body)
            while view:
                view = view[there.recv_into(view) :]
            there.sendall(struct.pack("<d", float(pickle.loads(body)[-1])))
        os._exit(0)
    there.close()
    array = np.ones(size // 4, np.float32)

    def call() -> None:
        data = pickle.dumps(array, protocol=5)
        here.sendall(struct.pack("<I", len(data)))
        here.sendall(data)
        here.recv(8)

    try:
        return {"pickle over a Unix socket (mosec's hop)": p50(call)}
    finally:
        here.close()
        os.waitpid(child, 0)


def peers(python: str) -> dict[str, dict[int, float]]:
    """LitServe's and Ray's own hop, in the environment that has them; what does not install is left out."""
    found: dict[str, dict[int, float]] = {}
    for name, source in (("LitServe's queue", _LITSERVE), ("Ray actor with its object store", _RAY)):
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "peer.py"
            file.write_text(_PEER + source)
            done = subprocess.run(
                [python, str(file), str(ROUNDS // 4), *map(str, SIZES)],
                capture_output=True, text=True, timeout=180, cwd=directory,
            )  # fmt: skip
        if done.returncode == 0:
            figures = done.stdout.strip().splitlines()[-1].split()
            found[name] = dict(zip(SIZES, map(float, figures), strict=True))
        else:
            print(f"{name}: not measured: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
    return found


_PEER = """
import statistics, sys, time
import numpy as np
rounds, sizes = int(sys.argv[1]), [int(one) for one in sys.argv[2:]]
def p50(call):
    for _ in range(10): call()
    seen = []
    for _ in range(rounds):
        began = time.perf_counter(); call(); seen.append(time.perf_counter() - began)
    return statistics.median(seen) * 1e6
"""
_LITSERVE = """
from multiprocessing import Manager, Process
def work(inbox, outbox):
    while (one := inbox.get()) is not None: outbox.put(float(one[-1]))
if __name__ == "__main__":
    import litserve
    manager = Manager()
    inbox, outbox = manager.Queue(), manager.Queue()
    process = Process(target=work, args=(inbox, outbox)); process.start()
    told = []
    for size in sizes:
        array = np.ones(size // 4, np.float32)
        told.append(p50(lambda: (inbox.put(array), outbox.get())))
    inbox.put(None); process.join()
    print(*told)
"""
_RAY = """
import ray
ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", object_store_memory=200_000_000)
@ray.remote
class Touch:
    def touch(self, array): return float(array[-1])
actor = Touch.remote()
told = []
for size in sizes:
    array = np.ones(size // 4, np.float32)
    told.append(p50(lambda: ray.get(actor.touch.remote(array))))
print(*told)
"""


def rows(peer_python: str) -> list[RequiredFigure]:
    told: list[RequiredFigure] = []
    others = peers(peer_python) if peer_python else {}
    for size in SIZES:
        mine = ours(size)
        theirs = queue(size) | mosec(size) | {name: figures[size] for name, figures in others.items()}
        for name, figure in (mine | theirs).items():
            told.append(RequiredFigure(f"hop of {size // 1_000} KB, {name}: p50", f"{figure:,.0f} us"))
        best = min(theirs.values())
        told.append(
            at_most(f"hop of {size // 1_000} KB: ours / the best of them", min(mine.values()) / best, 0.1)
        )
    return told
