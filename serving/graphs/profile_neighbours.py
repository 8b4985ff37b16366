"""Tasks that run beside the one that is measured, as they will in the pipeline: sharing caches."""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from serving.graphs.program import Graph
from serving.graphs.serial import call_alone
from serving.leash import end_with_parent
from serving.runtime.gpu_model import Files

SETTLE_SECONDS = 0.3
LOAD_SECONDS = 120.0
Call = tuple[Any, ...]


def shared_out(work: Mapping[str, float], count: int) -> list[str]:
    """Return the tasks of `count` processes, as many of each as its share of the work."""
    given = dict.fromkeys(work, 0)
    for _ in range(count if work else 0):
        most = max(work, key=lambda name: work[name] / (given[name] + 1))
        given[most] += 1
    return [name for name, number in given.items() for _ in range(number)]


def free_cores() -> int:
    """Return how many cores of this machine nothing uses now."""
    return max(0, round(len(os.sched_getaffinity(0)) - os.getloadavg()[0]))


@contextmanager
def neighbours(
    graph: Graph, directory: Path, tasks: Sequence[str], calls: Mapping[str, Sequence[Call]]
) -> Iterator[None]:
    """Keep a process for each of `tasks` busy with its recorded calls. Those that fail are left out."""
    context = multiprocessing.get_context("fork")
    ready = [context.Event() for _ in tasks]
    processes = [
        context.Process(target=_work, args=(graph, directory, name, calls[name], is_ready), daemon=True)
        for name, is_ready in zip(tasks, ready, strict=True)
    ]
    try:
        for process in processes:
            process.start()
        end = time.monotonic() + LOAD_SECONDS
        for process, is_ready in zip(processes, ready, strict=True):
            while process.is_alive() and time.monotonic() < end and not is_ready.wait(0.1):
                pass
        time.sleep(SETTLE_SECONDS)
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def _work(graph: Graph, directory: Path, name: str, calls: Sequence[Call], is_ready: Any) -> None:
    end_with_parent(signal.SIGKILL)
    loaded = next(one for one in graph.loaded if one.name == name)
    run = loaded.make(Files(directory))
    is_ready.set()
    while True:
        for call in calls:
            call_alone(run, call, is_class=loaded.task.is_class)
