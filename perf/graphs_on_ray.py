"""Task graphs on Ray, in Ray's own environment: `perf.graphs --ray` runs it beside the embedded executor.

`hop`: CPU of all Ray processes per item and hop of four tasks that do nothing with a picture, by a chain of
actors and by Ray Data in blocks of one item and of eight. `default` and `ours`: items per second of the graph
with timed waits, by Ray Data as it comes (its autoscaler, its blocks) and with the plan's sizes, on a Ray of
equal size. Prints a line of JSON.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.data import ActorPoolStrategy, Dataset

from serving.graphs.loading import load_graph
from serving.graphs.offline import SourceItem
from serving.graphs.plan import GraphPlan
from serving.graphs.ray import data, sizes
from serving.graphs.ray.connection import connected
from serving.graphs.ray.stages import FAILED, LoadedRunner, row_of


def items_of(count: int) -> list[SourceItem]:
    return [SourceItem(str(number), Path("items.jsonl"), str(number).encode()) for number in range(count)]


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of all its Ray."""
    total = 0.0
    for one in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            used = one.cpu_times()
            total += used.user + used.system
        except psutil.Error:
            continue
    return total


def as_it_comes(file: Path, plan: GraphPlan, count: int) -> Dataset:
    """The same steps, with Ray Data's own numbers of actors and blocks."""
    dataset = ray.data.from_items([row_of(number, one) for number, one in enumerate(items_of(count))])
    for node in load_graph(file).nodes:
        task = plan.tasks[node.loaded.name]
        dataset = dataset.map_batches(
            data.DataStage,
            fn_constructor_args=[file, node.name, task.max_size, task.threads],
            batch_format="pyarrow",
            batch_size=task.max_size,
            compute=ActorPoolStrategy(),
            num_cpus=1,
        )
    return dataset


def by_plan(file: Path, plan: GraphPlan, count: int, size: int = 0) -> Dataset:
    graph = load_graph(file)
    pools = sizes.pool_sizes(graph.description, plan)
    size = size or sizes.block_items(graph.description, plan, count)
    return data.dataset(file, graph, plan, pools, items_of(count), size)


def measured(dataset: Dataset) -> dict[str, float]:
    began, cpu, ended = time.monotonic(), cpu_seconds(), []
    for row in rows_of(dataset):
        assert not row[FAILED], row[FAILED]
        ended.append(time.monotonic())
    half = len(ended) // 2
    return {
        "items_per_second": len(ended) / (ended[-1] - began),
        "second_half_per_second": (len(ended) - half) / max(ended[-1] - ended[half - 1], 1e-9),
        "cpu_ms_per_item": (cpu_seconds() - cpu) / len(ended) * 1e3,
        "first_after_seconds": ended[0] - began,
    }


def rows_of(dataset: Dataset) -> Iterator[dict[str, Any]]:
    for table in dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=1):
        yield from table.to_pylist()


class ChainedActor:
    def __init__(self, file: Path, task: str) -> None:
        self._runner = LoadedRunner(load_graph(file), file.parent, task, 1)

    def run(self, value: Any) -> Any:
        (result,) = self._runner.run([(value,)])
        return result.value  # type: ignore[union-attr]


def chain(file: Path, count: int) -> dict[str, float]:
    """Actors that pass a value on by reference, eight items at a time."""
    remote = ray.remote(ChainedActor)
    actors = [remote.remote(file, one.loaded.name) for one in load_graph(file).nodes]  # type: ignore[attr-defined]

    def through(number: int) -> Any:
        value: Any = number
        for actor in actors:
            value = actor.run.remote(value)
        return value

    ray.get([through(1) for _ in range(8)])
    began, cpu = time.monotonic(), cpu_seconds()
    waiting = [through(number) for number in range(8)]
    for number in range(8, count + 8):
        ray.get(waiting.pop(0))
        if number < count:
            waiting.append(through(number))
    spent = time.monotonic() - began
    return {"items_per_second": count / spent, "cpu_ms_per_item": (cpu_seconds() - cpu) / count * 1e3}


def main() -> None:
    asked = json.loads(sys.argv[1])
    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    nothing, waits = Path(asked["nothing"]), Path(asked["waits"])
    plans = {
        file: GraphPlan.parse(plan, load_graph(file).description)
        for file, plan in ((nothing, asked["nothing_plan"]), (waits, asked["waits_plan"]))
    }
    told: dict[str, Any] = {}
    with connected("", nothing, {"CPU": plans[nothing].processes}):
        data.quiet()
        told["hop_chain"] = chain(nothing, asked["hops"])
        told["hop_1"] = measured(by_plan(nothing, plans[nothing], asked["hops"], 1))
        told["hop_8"] = measured(by_plan(nothing, plans[nothing], asked["hops"], 8))
    # No order is fair to whoever runs while the machine is busiest: each runs twice, in turn.
    for turn in range(2):
        for name, made in (("default", as_it_comes), ("ours", by_plan)):
            with connected("", waits, {"CPU": plans[waits].processes}):
                data.quiet()
                told[f"{name}_{turn}"] = measured(made(waits, plans[waits], asked["items"]))
    report.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    os.chdir(tempfile.gettempdir())
    main()
