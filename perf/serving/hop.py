"""One tensor from a process to another and a small answer back: the runtime beside what others do."""

import multiprocessing
import os
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
from serving.runtime.board import Phase, ProcessBoard
from serving.runtime.children import ChildOrder
from serving.runtime.context import runtime
from serving.runtime.gpu_model import GpuModel
from serving.runtime.gpu_process import GpuProcess
from serving.runtime.links import ARENA_BYTES, listener
from serving.runtime.models import ModelHandles

SIZES = (600_000, 4_800_000)
ROUNDS = 400
Call = Callable[[Any], Any]


class Touch(GpuModel):
    """Reads one number of the array."""

    def touch(self, array: Any) -> float:
        return float(array[-1])


@contextmanager
def models(model: type[GpuModel]) -> Iterator[ModelHandles]:
    """The model in a process of its own, and this process as one that calls it."""
    board, listening = ProcessBoard.create(16), listener()
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
    calling = ModelHandles(
        {model.__name__: [(listening.getsockname().hex(), 8)]}, board, arena_bytes=ARENA_BYTES
    )
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


def peers(python: str) -> dict[str, dict[int, float]]:
    """Return what the array costs in hops of the peers, in the environment that has them; what does not run
    is left out.
    """
    found: dict[str, dict[int, float]] = {}
    for name, source in _PEERS.items():
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "peer.py"
            file.write_text(_PEER + source)
            done = subprocess.run(
                [python, str(file), str(ROUNDS // 8), *map(str, SIZES)],
                capture_output=True, text=True, timeout=240, cwd=directory,
            )  # fmt: skip
        told = [line for line in done.stdout.splitlines() if line.startswith("figures ")]
        if told:
            found[name] = dict(zip(SIZES, map(float, told[-1].split()[1:]), strict=True))
        else:
            print(f"{name}: not measured: {done.stderr.strip().splitlines()[-3:]}", file=sys.stderr)
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
_PEERS = {
    # One server whose second stage gets the array of the first, less one whose first stage answers itself.
    "mosec, one more stage": """
import os, signal, subprocess, urllib.request
SERVER = '''
import os
import numpy as np
from mosec import Server, Worker
size, stages = int(os.environ["SIZE"]), int(os.environ["STAGES"])
class Make(Worker):
    def __init__(self): self.array = np.ones(size // 4, np.float32)
    def forward(self, data): return self.array if stages == 2 else {"last": float(self.array[-1])}
class Touch(Worker):
    def forward(self, array): return {"last": float(array[-1])}
if __name__ == "__main__":
    server = Server()
    server.append_worker(Make, num=1)
    if stages == 2: server.append_worker(Touch, num=1)
    server.run()
'''
open("server.py", "w").write(SERVER)
def asked(port):
    url, kind = f"http://127.0.0.1:{port}/inference", {"content-type": "application/json"}
    return urllib.request.urlopen(urllib.request.Request(url, b"{}", kind), timeout=10).read()
def served(size, stages, port):
    server = subprocess.Popen([sys.executable, "server.py", "--port", str(port)],
                              env=os.environ | {"SIZE": str(size), "STAGES": str(stages)},
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try: asked(port); break
            except OSError: time.sleep(0.2)
        return p50(lambda: asked(port))
    finally:
        server.terminate(); server.wait()
print("figures", *(served(size, 2, 18731) - served(size, 1, 18732) for size in sizes))
""",
    # The queue that LitServe's default transport puts requests into, and takes answers out of.
    "LitServe's queue": """
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
    print("figures", *told)
""",
    "Ray actor with its object store": """
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
print("figures", *told)
""",
    "Ray Serve, a deployment's handle": """
import ray
from ray import serve
ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", object_store_memory=200_000_000)
@serve.deployment
class Touch:
    def touch(self, array): return float(array[-1])
serve.start(http_options={"location": "NoServer"})
handle = serve.run(Touch.bind(), route_prefix=None)
told = []
for size in sizes:
    array = np.ones(size // 4, np.float32)
    told.append(p50(lambda: handle.touch.remote(array).result()))
print("figures", *told)
""",
}


def rows(peer_python: str) -> list[RequiredFigure]:
    told: list[RequiredFigure] = []
    others = peers(peer_python) if peer_python else {}
    for size in SIZES:
        mine = ours(size)
        theirs = queue(size) | {name: figures[size] for name, figures in others.items()}
        for name, figure in (mine | theirs).items():
            told.append(RequiredFigure(f"hop of {size // 1_000} KB, {name}: p50", f"{figure:,.0f} us"))
        best = min(theirs.values())
        told.append(
            at_most(f"hop of {size // 1_000} KB: ours / the best of them", min(mine.values()) / best, 0.1)
        )
    return told
