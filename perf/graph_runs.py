"""Runs of a graph that perf measures: by the executor, serially, and by copies of the whole chain."""

import asyncio
import multiprocessing
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serving.graphs.counters import GraphCounters
from serving.graphs.executor import GraphExecutor
from serving.graphs.loading import load_graph
from serving.graphs.plan import GraphPlan
from serving.graphs.serial import SerialRun
from serving.graphs.task_process import limit_threads


@dataclass(frozen=True)
class PipelinedRun:
    """`cpu_seconds` of all processes. `done`: when each item was. `taken`: seconds of a process of each task
    for one item, as the executor sees it. `memory`: bytes of all processes at the end, on cards as well."""

    seconds: float
    cpu_seconds: float
    counters: GraphCounters
    done: list[float]
    taken: dict[str, float]
    memory: int


def written(text: str) -> Path:
    file = Path(tempfile.mkdtemp(prefix="slipway-perf-"), "app.py")
    file.write_text(text)
    return file


def cpu_of(pids: list[int]) -> float:
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def memory_of(pids: list[int], card_before: int = 0) -> int:
    """Return the bytes of processes, shared pages once, and of the first card beyond those before."""
    total = max(0, card_bytes() - card_before)
    for pid in pids:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total += next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def card_bytes() -> int:
    """Return the bytes of the first card that are in use; 0 where there is none."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).used)
    except Exception:  # of the library, which may be missing
        return 0


async def pipelined(
    file: Path,
    plan: GraphPlan,
    items: int,
    during: Callable[[GraphExecutor], Any] | None = None,
    *,
    warm: int = 16,
) -> "PipelinedRun":
    """Raises what an item does. `warm`: items before those that count."""
    card_before = card_bytes()
    executor = GraphExecutor(file, plan)
    await executor.start()
    try:
        await asyncio.gather(*(executor.submit({"x": b"1"})[1] for _ in range(warm)))
        pids = [os.getpid(), *executor.pids.values()]
        began, cpu = time.monotonic(), cpu_of(pids)
        done: list[float] = []
        outcomes = []
        changing = asyncio.ensure_future(during(executor)) if during else None
        for number in range(items):
            await executor.room()
            _, outcome = executor.submit({"x": str(number).encode()})
            outcome.add_done_callback(lambda _: done.append(time.monotonic()))
            outcomes.append(outcome)
        results = await asyncio.gather(*outcomes)
        ended = time.monotonic()
        assert len(results) == items
        if changing:
            await changing
        spent = cpu_of(pids) - cpu if not during else 0.0
        taken: dict[str, float] = defaultdict(float)
        for span in executor.calls.spans:
            taken[span.task] += (span.ended - span.began) / span.batch / (items + warm)
        memory = memory_of([os.getpid(), *executor.pids.values()], card_before)
        return PipelinedRun(ended - began, spent, executor.counters(), done, taken, memory)
    finally:
        await executor.stop()


def serial(file: Path, items: int) -> float:
    run = SerialRun(load_graph(file), file.parent)
    began = time.monotonic()
    for number in range(items):
        run.run({"x": number})
    return time.monotonic() - began


def copies(file: Path, items: int, count: int) -> tuple[float, int]:
    """Return seconds and bytes of `count` processes that each run the whole chain."""
    card_before = card_bytes()
    with multiprocessing.get_context("spawn").Pool(count, _begin_copy, (str(file), count)) as pool:
        pool.map(_run_copy, range(count * 4), 1)
        began = time.monotonic()
        pool.map(_run_copy, range(items), 1)
        seconds = time.monotonic() - began
        pids = [one.pid for one in multiprocessing.active_children() if one.pid is not None]
        return seconds, memory_of(pids, card_before)


_copy: SerialRun


def _begin_copy(file: str, count: int) -> None:
    global _copy
    _copy = SerialRun(load_graph(Path(file)), Path(file).parent)
    limit_threads(max(1, (os.cpu_count() or 1) // count))


def _run_copy(number: int) -> Any:
    return _copy.run({"x": number})
