"""The parts of a run on Ray that need no Ray: steps over many items, one item's walk, sizes of a plan."""

import asyncio
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from serving.graphs.calling import CallFailure, call_batch
from serving.graphs.encoding import encode_output
from serving.graphs.errors import GraphError, ItemFailed
from serving.graphs.offline import SourceItem
from serving.graphs.plan import GraphPlan, TaskPlan
from serving.graphs.program import Graph, GraphNode
from serving.graphs.ray import sizes
from serving.graphs.ray.stages import BOOKKEEPING, EXIT_TOO_LONG, FAILED, GraphStage, outputs_of, row_of
from serving.graphs.ray.walk import walk
from serving.graphs.serial import SerialRun
from slipway import graph
from tests.serving.graphs.random_graphs import build

GRAPHS = [60, pytest.param(1_000, marks=pytest.mark.slow)]
ITEMS = 12


def serially(g: Graph, number: int) -> Any:
    """Encoded outputs, or the reason of the failure."""
    try:
        return {name: encode_output(value) for name, value in SerialRun(g, Path()).run({"x": number}).items()}
    except ItemFailed as error:
        return str(error)


def by_steps(g: Graph, numbers: list[int], draw: random.Random) -> list[Any]:
    items = [SourceItem(str(number), Path("items.jsonl"), json.dumps(number).encode()) for number in numbers]
    rows = [row_of(at, item) for at, item in enumerate(items)]
    for node in g.nodes:
        size = draw.randint(1, node.loaded.task.options.batch.max_size)
        stage = GraphStage(g, Path(), node.name, max_size=size, threads=1)
        opened = [
            {name: value for name, value in row.items() if name in {*stage.needed, *BOOKKEEPING}}
            for row in rows
        ]
        passing = [
            {name: value for name, value in row.items() if name in {*stage.kept, *BOOKKEEPING}}
            for row in rows
        ]
        rows = [old | new for old, new in zip(passing, stage.run(opened), strict=True)]
    return [row[FAILED] or outputs_of(row, [*g.outputs]) for row in rows]


def walked(g: Graph, number: int, draw: random.Random) -> Any:
    runs = {one.name: one.make({}) for one in g.loaded}

    async def call(node: GraphNode, arguments: Any) -> Any:
        for _ in range(draw.randrange(3)):
            await asyncio.sleep(0)
        task = node.loaded
        (result,) = call_batch(runs[task.name], [arguments], task=task.name, is_class=task.task.is_class)
        if isinstance(result, CallFailure):
            raise ItemFailed(result.reason)
        return result.value

    try:
        outputs = asyncio.run(walk(g, {"x": number}, call))
        return {name: encode_output(value) for name, value in outputs.items()}
    except ItemFailed as error:
        return str(error)


@pytest.mark.parametrize("graphs", GRAPHS)
def test_steps_over_many_items_end_as_the_serial_run_does(graphs):
    for seed in range(graphs):
        draw, g = random.Random(seed), build(seed)
        numbers = [draw.randrange(500) for _ in range(ITEMS)]
        assert by_steps(g, numbers, draw) == [serially(g, number) for number in numbers], seed


@pytest.mark.parametrize("graphs", GRAPHS)
def test_the_walk_of_an_item_ends_as_the_serial_run_does(graphs):
    for seed in range(graphs):
        draw, g = random.Random(seed), build(seed)
        number = draw.randrange(500)
        assert walked(g, number, draw) == serially(g, number), seed


def test_a_step_tries_again_as_often_as_its_task_says():
    tried: list[int] = []

    @graph.task(retries=2)
    def flaky(x: int) -> int:
        tried.append(x)
        if x == 5 and tried.count(5) < 3:
            raise OSError("not yet")
        return x

    with graph.Graph("flaky") as g:
        g.output(flaky(g.input("x", int)))
    assert by_steps(g, [4, 5], random.Random(0)) == [{"": ("json", b"4")}, {"": ("json", b"5")}]
    assert tried == [4, 5, 5, 5]


def test_a_call_that_takes_too_long_ends_its_process():
    code = "import time; from serving.graphs.ray.stages import CallLimit\nwith CallLimit(0.2): time.sleep(60)"
    assert subprocess.run([sys.executable, "-c", code], timeout=50, check=False).returncode == EXIT_TOO_LONG


def test_what_cannot_be_read_fails_at_its_first_step():
    with graph.Graph("picture") as g:
        g.output(graph.task(lambda picture: picture)(g.input("picture", graph.Image)))
    stage = GraphStage(g, Path(), g.nodes[0].name, max_size=1, threads=1)
    rows = [row_of(0, SourceItem("a", Path("/nowhere/a.png"))), row_of(1, SourceItem("b", Path(__file__)))]
    assert [row[FAILED] for row in stage.run(rows)] == [
        "it cannot be read: No such file or directory",
        "input picture: it is no PNG, JPEG or WebP picture",
    ]


def test_a_plan_gives_ray_fixed_pools_shares_of_cards_and_blocks():
    @graph.task(batch=graph.Batch(max_size=8))
    class Model:
        def run(self, items: list[int]) -> list[int]:
            return items

    @graph.task
    def check(x: int) -> int:
        return x

    with graph.Graph("twice") as g:
        model = Model()
        g.output(check(model(model(g.input("x", int)))))
    tasks = {
        "Model": TaskPlan(replicas=3, max_size=8, threads=2, device="cuda", gpus=(0, 1)),
        "check": TaskPlan(replicas=2, device="cuda", gpus=(1,)),
    }
    plan = GraphPlan(tasks=tasks)
    pools = sizes.pool_sizes(g.description, plan)
    assert pools == {"Model": 2, "Model-2": 1, "check": 2}
    assert sizes.actor_sizes(plan)["Model"] == sizes.ActorSize(cpus=2, gpus=0.3333), "three on card 1"
    assert [sizes.block_items(g.description, plan, items) for items in (3, 30, 3_000)] == [1, 3, 8]
    needed = sizes.needed(g.description, plan, pools)
    with pytest.raises(GraphError, match="the plan needs 8 CPU and the cluster has 4"):
        sizes.check_capacity(needed, {"CPU": 4, "GPU": 8})
    sizes.check_capacity(needed, {"CPU": 8, "GPU": 2})
