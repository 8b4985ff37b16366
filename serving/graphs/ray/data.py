"""A graph over many items by Ray Data: a step per node, with as many actors as the plan says, and no more.

What comes back neither done nor failed was lost with its process, and others with it: each such item is run
again alone, by one actor a task, which shows which of them ends its process.
"""

import asyncio
import logging
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray
from ray.data import ActorPoolStrategy, DataContext, Dataset
from ray.data.exceptions import RayDataUserCodeException

from serving.graphs.calling import Arguments, CallFailure
from serving.graphs.encoding import decode_named
from serving.graphs.errors import GraphError, ItemFailed
from serving.graphs.loading import load_graph
from serving.graphs.offline import ResultFiles, SourceItem, encode_result, items_of
from serving.graphs.places import Place
from serving.graphs.plan import GraphPlan
from serving.graphs.program import Graph, GraphNode
from serving.graphs.ray.connection import connected
from serving.graphs.ray.sizes import actor_sizes, block_items, needed, pool_sizes
from serving.graphs.ray.stages import (
    BOOKKEEPING,
    FAILED,
    NUMBER,
    GraphStage,
    LoadedRunner,
    outputs_of,
    row_of,
)
from serving.graphs.ray.walk import walk
from serving.graphs.scheduler import MOST_DEATHS

IN_FLIGHT = 2
"""Blocks that an actor has at a time: the next one is there when it has done one."""


class DataStage:
    """A step as Ray Data wants it: tables of Arrow in and out."""

    def __init__(self, file: Path, node: str, max_size: int, threads: int) -> None:
        self._stage = GraphStage(load_graph(file), file.parent, node, max_size=max_size, threads=threads)

    def __call__(self, table: pa.Table) -> pa.Table:
        stage = self._stage
        opened = [name for name in table.column_names if name in stage.needed or name in BOOKKEEPING]
        rows = stage.run(table.select(opened).to_pylist())
        passing = [name for name in table.column_names if name in stage.kept or name in BOOKKEEPING[:-1]]
        made = {name: pa.array([row[name] for row in rows], _type(name)) for name in (FAILED, *stage.added())}
        table = table.select(passing)
        for name, column in made.items():
            table = table.append_column(name, column)
        return table


def _type(column: str) -> Any:
    return pa.string() if column == FAILED or column.endswith(".suffix") else pa.large_binary()


def run(
    file: Path, graph: Graph, plan: GraphPlan, source: Place, results: ResultFiles, *, address: str
) -> dict[str, Any]:
    """Runs the graph by the plan over all items of a source. Raises GraphError."""
    items = [*items_of(source, [*graph.inputs])]
    pools = pool_sizes(graph.description, plan)
    failed: dict[int, str] = {}
    with connected(address, file, needed(graph.description, plan, pools)) as place:
        quiet()
        began = time.monotonic()
        seen: set[int] = set()
        size = block_items(graph.description, plan, len(items))
        for row in _rows(dataset(place, graph, plan, pools, items, size)) if items else ():
            seen.add(row[NUMBER])
            if row[FAILED]:
                failed[row[NUMBER]] = row[FAILED]
            else:
                results.write(items[row[NUMBER]].name, outputs_of(row, [*graph.outputs]))
        lost = [number for number in range(len(items)) if number not in seen]
        if lost:
            failed |= asyncio.run(_run_alone(place, graph, plan, {one: items[one] for one in lost}, results))
        seconds = time.monotonic() - began
    for number in sorted(failed):
        results.fail(items[number].name, failed[number])
    return {"seconds": seconds, "lost": len(lost)}


def quiet() -> None:
    """Ends what Ray Data says of its progress and of blocks that are lost, which are told otherwise."""
    DataContext.get_current().enable_progress_bars = False
    DataContext.get_current().print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", category=ray.util.annotations.RayDeprecationWarning)


def dataset(
    file: Path,
    graph: Graph,
    plan: GraphPlan,
    pools: Mapping[str, int],
    items: Sequence[SourceItem],
    size: int,
) -> Dataset:
    """Sizes are fixed and nothing scales: an actor too many takes processors from another step."""
    settings = DataContext.get_current()
    settings.max_errored_blocks = -1
    settings.execution_options.resource_limits = settings.execution_options.resource_limits.copy(
        object_store_memory=plan.entry.bytes
    )
    rows = [row_of(number, item) for number, item in enumerate(items)]
    made = ray.data.from_items(rows, override_num_blocks=-(-len(rows) // size))
    sizes = actor_sizes(plan)
    for node in graph.nodes:
        task = plan.tasks[node.loaded.name]
        made = made.map_batches(  # what is deprecated of it comes with no other name in this release
            DataStage,
            fn_constructor_args=[file, node.name, task.max_size, task.threads],
            batch_format="pyarrow",
            batch_size=None,
            compute=ActorPoolStrategy(size=pools[node.name], max_tasks_in_flight_per_actor=IN_FLIGHT),
            num_cpus=sizes[node.loaded.name].cpus,
            num_gpus=sizes[node.loaded.name].gpus,
            udf_modifying_row_count=False,
            # Ray's own default is to try a block for ever.
            max_restarts=-1,
            max_task_retries=1,
        )
    return made


def _rows(rows: Dataset) -> Iterator[dict[str, Any]]:
    """Raises GraphError where a model cannot be loaded."""
    try:
        for table in rows.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=1):
            yield from table.to_pylist()
    except (RayDataUserCodeException, ray.exceptions.RayError) as error:
        raise GraphError(_last_line(error)) from None


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


# Items whose processes died


class LoneTask:
    """An actor of one task."""

    def __init__(self, file: Path, task: str, threads: int) -> None:
        self._runner = LoadedRunner(load_graph(file), file.parent, task, threads)

    def run(self, arguments: Arguments) -> Any:
        (result,) = self._runner.run([arguments])
        return result


class LoneTasks:
    """An actor for each task, made when it is first called, and again when it died."""

    def __init__(self, file: Path, plan: GraphPlan) -> None:
        self._file, self._plan, self._sizes = file, plan, actor_sizes(plan)
        self._actors: dict[str, Any] = {}

    async def call(self, node: GraphNode, arguments: Arguments) -> Any:
        task = node.loaded.name
        for _ in range(MOST_DEATHS):
            actor = self._actors.get(task) or self._made(task)
            began = time.monotonic()
            try:
                result = await actor.run.remote(arguments)
            except ray.exceptions.RayActorError:
                took = time.monotonic() - began
                if self._actors.get(task) is actor:
                    del self._actors[task]
                continue
            if isinstance(result, CallFailure):
                raise ItemFailed(result.reason)
            return result.value
        limit = node.loaded.task.options.timeout_seconds
        words = f"did not end its call within {limit:g} s" if took >= limit else "ended"
        raise ItemFailed(f"{task}: its process {words}, {MOST_DEATHS} times")

    def _made(self, task: str) -> Any:
        size, threads = self._sizes[task], self._plan.tasks[task].threads
        lone = ray.remote(LoneTask).options(num_cpus=size.cpus, num_gpus=size.gpus)
        self._actors[task] = lone.remote(self._file, task, threads)
        return self._actors[task]


async def _run_alone(
    file: Path, graph: Graph, plan: GraphPlan, items: Mapping[int, SourceItem], results: ResultFiles
) -> dict[int, str]:
    """Reasons of those that failed, by number."""
    tasks, failed = LoneTasks(file, plan), {}
    for number, item in items.items():
        try:
            encoded = item.read([*graph.inputs])
            inputs = {name: decode_named(name, kind, encoded[name]) for name, kind in graph.inputs.items()}
            outputs = await walk(graph, inputs, tasks.call)
            results.write(item.name, {name: encode_result(value) for name, value in outputs.items()})
        except ItemFailed as error:
            failed[number] = str(error)
    return failed
