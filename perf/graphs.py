"""Task graphs by the embedded executor beside their peers: `python -m perf.graphs [--items 400]`.

Hop: four tasks that do nothing with a picture of 1.23 MB; beside it processes that pass it on by
`multiprocessing.Queue`. CPU: three tasks of known CPU time; the share of all CPU time that is the tasks' own,
and items per second beside the serial run. Waits: a task that waits as a GPU would (30 ms and 2 ms an item,
in batches): **simulated, no GPU is used**; beside one process per task, and beside copies of the whole chain
with as many loaded models. Prediction: items per second that follow from the run with one process per task.
Switch: another plan takes over; items lost, and output of a second before and after.
Where there is a GPU, `perf.graphs_on_gpu` adds those of a graph with real tasks.
`--ray`: Ray's hop beside ours, and Ray Data as it comes beside Ray Data with the plan's sizes, on the waits.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import subprocess
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from perf import graphs_on_gpu
from perf.graph_runs import PipelinedRun, copies, cpu_of, pipelined, serial, written
from perf.required import RequiredFigure, at_least, at_most, report
from serving.graphs.executor import GraphExecutor
from serving.graphs.loading import load_graph
from serving.graphs.plan import EntryLimits, GraphPlan, TaskPlan
from serving.graphs.ray.environment import QUIET, environment
from serving.worker_command import default_environments

SHAPE = (640, 640, 3)
HOPS = 4
NOTHING = """
from slipway import graph
import numpy as np

@graph.task
def first(x: int) -> np.ndarray:
    pixels = graph.empty((640, 640, 3), "uint8")
    pixels[0, 0, 0] = x % 256
    return pixels

@graph.task
def second(pixels: np.ndarray) -> np.ndarray:
    made = graph.empty(pixels.shape, "uint8")
    made[0, 0, 0] = pixels[0, 0, 0]
    return made

@graph.task
def third(pixels: np.ndarray) -> np.ndarray:
    return second(pixels)

@graph.task
def last(pixels: np.ndarray) -> int:
    return int(pixels[0, 0, 0])

with graph.Graph("nothing") as g:
    g.output(last(third(second(first(g.input("x", int))))))
"""
WORK = """
from slipway import graph
import time
import numpy as np

def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

@graph.task
def decode(x: int) -> np.ndarray:
    spin(0.004)
    return np.full((640, 640, 3), x % 256, "uint8")

@graph.task
def detect(pixels: np.ndarray) -> np.ndarray:
    spin(0.012)
    return pixels

@graph.task
def render(pixels: np.ndarray) -> int:
    spin(0.008)
    return int(pixels[0, 0, 0])

with graph.Graph("work") as g:
    g.output(render(detect(decode(g.input("x", int)))))
"""
WAITS = """
from slipway import graph
import time

@graph.task
def decode(x: int) -> int:
    time.sleep(0.004)
    return x

@graph.task(batch=graph.Batch(max_size=8, max_wait_ms=20))
class Detect:
    def run(self, items: list[int]) -> list[int]:
        time.sleep(0.030 + 0.002 * len(items))
        return items

@graph.task
def render(x: int) -> int:
    time.sleep(0.012)
    return x

with graph.Graph("waits") as g:
    g.output(render(Detect()(decode(g.input("x", int)))))
"""


def plan_of(file: Path, items: int = 32, **tasks: TaskPlan) -> GraphPlan:
    description = load_graph(file).description
    one = GraphPlan.of_one_each(description, items=items)
    return GraphPlan(tasks={**one.tasks, **tasks}, entry=EntryLimits(items=items))


def queued(items: int) -> tuple[float, float]:
    """Seconds and CPU seconds of a chain of processes that pass a picture by queues."""
    context = multiprocessing.get_context("spawn")
    queues = [context.Queue(4) for _ in range(HOPS + 1)]
    processes = [context.Process(target=_pass_on, args=pair, daemon=True) for pair in pairwise(queues)]
    for process in processes:
        process.start()
    picture = np.zeros(SHAPE, np.uint8)
    for _ in range(4):
        queues[0].put(picture)
        queues[-1].get()
    pids = [os.getpid(), *(process.pid or 0 for process in processes)]
    began, cpu = time.monotonic(), cpu_of(pids)
    sent = 0
    for done in range(items):
        while sent < items and sent - done < 8:
            queues[0].put(picture)
            sent += 1
        queues[-1].get()
    seconds, spent = time.monotonic() - began, cpu_of(pids) - cpu
    for process in processes:
        process.kill()
    return seconds, spent


def _pass_on(source: Any, target: Any) -> None:
    while True:
        target.put(source.get())


def predicted(run: PipelinedRun, plan: GraphPlan) -> float:
    """Items per second of the slowest task."""
    return min(plan.tasks[name].replicas / seconds for name, seconds in run.taken.items())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.graphs", description=__doc__)
    parser.add_argument("--items", type=int, default=400)
    parser.add_argument("--ray", action="store_true", help="with Ray as a peer: some five minutes more")
    asked = parser.parse_args()
    items = asked.items
    print(f"cores {os.cpu_count()}, load {os.getloadavg()[0]:.1f}")
    figures: list[RequiredFigure] = []

    nothing = written(NOTHING)
    run = asyncio.run(pipelined(nothing, plan_of(nothing, 8), items))
    few = max(20, items // 10)
    queue_seconds, queue_cpu = queued(few)
    ours, theirs = run.cpu_seconds / items / HOPS * 1e3, queue_cpu / few / HOPS * 1e3
    print(f"hop of 1.23 MB: {ours:.3f} ms CPU ({run.seconds / items * 1e3:.1f} ms an item)")
    print(f"  mp.Queue {theirs:.3f} ms CPU ({queue_seconds / few * 1e3:.1f} ms an item)")
    figures.append(at_least("mp.Queue's CPU per hop over ours", theirs / ours, 10))

    work = written(WORK)
    alone = serial(work, items // 4)
    run = asyncio.run(pipelined(work, plan_of(work), items))
    tasks = run.counters.tasks.values()
    own = sum(size.cpu_seconds for task in tasks for size in task.sizes.values()) * items / run.counters.done
    print(f"CPU, 24 ms an item: serial {items // 4 / alone:.1f} items/s, pipelined {items / run.seconds:.1f}")
    figures.append(at_least("share of CPU time that is the tasks' own", own / run.cpu_seconds, 0.9))

    waits = written(WAITS)
    one = plan_of(waits)
    detect = TaskPlan(replicas=2, max_size=8, wait_ms=20)
    planned = plan_of(waits, 64, Detect=detect, decode=TaskPlan(replicas=2), render=TaskPlan(replicas=5))
    by_one = asyncio.run(pipelined(waits, one, items))
    by_plan = asyncio.run(pipelined(waits, planned, items))
    count = max(1, planned.processes // len(planned.tasks))
    by_copies, _ = copies(waits, items, count)
    print(
        f"waits, simulated: one a task {items / by_one.seconds:.1f} items/s, plan of {planned.processes} "
        f"processes {items / by_plan.seconds:.1f}, {count} copies {items / by_copies:.1f}"
    )
    figures.append(at_least("plan over one process a task", by_one.seconds / by_plan.seconds, 2.0))
    figures.append(at_least("plan over copies of the chain", by_copies / by_plan.seconds, 1.3))
    told, measured = predicted(by_one, planned), items / by_plan.seconds
    print(f"prediction {told:.1f} items/s, measured {measured:.1f}")
    figures.append(at_least("prediction against measured", min(told, measured) / max(told, measured), 0.9))

    switched_at: list[float] = []

    async def change(executor: GraphExecutor) -> None:
        await asyncio.sleep(1.5)
        switched_at.append(time.monotonic())
        await executor.switch(planned)
        switched_at.append(time.monotonic())

    run = asyncio.run(pipelined(waits, one, 3 * items, change))
    begin, end = switched_at
    before = sum(begin - 1.0 <= at < begin for at in run.done)
    during = sum(begin <= at < end for at in run.done) / (end - begin)
    after = sum(end <= at < end + 1.0 for at in run.done)
    print(f"switch: {before} items/s before, {during:.0f} in its {end - begin:.1f} s, {after} after")
    figures.append(at_most("items lost by the switch", 3 * items - len(run.done) + run.counters.failed, 0))
    figures.append(at_least("output while it switches over that before", during / before, 0.9))
    if graphs_on_gpu.has_card():
        figures += graphs_on_gpu.figures(on_card=True)
    if asked.ray:
        figures += on_ray(nothing, waits, planned, ours, 15 * items)
    return report(figures)


def on_ray(nothing: Path, waits: Path, planned: GraphPlan, hop_ms: float, items: int) -> list[RequiredFigure]:
    """`hop_ms`: CPU of the embedded executor's hop. Raises EnvironmentNotMade."""
    python = environment().ensure(default_environments()) / "bin" / "python"
    asked = {
        "nothing": str(nothing),
        "waits": str(waits),
        "nothing_plan": plan_of(nothing).document(),
        "waits_plan": planned.document(),
        "hops": 200,
        "items": items,
    }
    root = Path(__file__).parents[1]
    command = [str(python), "-m", "perf.graphs_on_ray", json.dumps(asked)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=root, env=os.environ | QUIET)
    told = json.loads(ended.stdout.splitlines()[-1])
    for name, one in told.items():
        print(f"Ray, {name}: " + ", ".join(f"{key} {value:.1f}" for key, value in one.items()))
    best = {
        name: max(told[f"{name}_{turn}"]["items_per_second"] for turn in range(2))
        for name in ("default", "ours")
    }
    cheapest = min(one["cpu_ms_per_item"] for name, one in told.items() if name.startswith("hop"))
    return [
        at_least("Ray's CPU per hop over ours, its cheapest way", cheapest / HOPS / hop_ms, 10),
        at_least("Ray Data with our sizes over its default", best["ours"] / best["default"], 1.2),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
