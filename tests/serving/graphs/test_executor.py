"""The executor with real processes: results as in the serial run, whatever dies meanwhile."""

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from serving.graphs.encoding import encode_output
from serving.graphs.executor import ARENA_BYTES, GraphExecutor
from serving.graphs.plan import EntryLimits, GraphPlan, TaskPlan
from serving.graphs.serial import SerialRun
from slipway.graph import GraphError, ItemFailed
from tests.serving.graphs import apps, random_graphs
from tests.serving.runtime.rig import alive, descendants

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return written(tmp_path, apps.DIFFICULT)


def written(directory: Path, text: str) -> Path:
    file = directory / "app.py"
    file.write_text(text)
    return file


@contextlib.asynccontextmanager
async def running(
    file: Path, plan: Any = None, arena_bytes: int = ARENA_BYTES
) -> AsyncIterator[GraphExecutor]:
    executor = GraphExecutor(file, plan, arena_bytes=arena_bytes)
    await executor.start()
    try:
        yield executor
    finally:
        await executor.stop()


def planned(**tasks: TaskPlan) -> dict[str, Any]:
    one = TaskPlan()
    names = ("Risky", "picture", "checked", "slow")
    plan = GraphPlan(tasks={name: tasks.get(name, one) for name in names}, entry=EntryLimits(items=12))
    return plan.document()


async def outcomes(executor: GraphExecutor, numbers: list[int]) -> list[Any]:
    """Results in their order; of a failed item its reason."""
    asked = [executor.submit({"x": str(number).encode()})[1] for number in numbers]
    ended = await asyncio.gather(*asked, return_exceptions=True)
    return [int(one[""][1]) if isinstance(one, dict) else str(one) for one in ended]


def answers(numbers: list[int]) -> list[int]:
    return [number * 10 + 1 for number in numbers]


@pytest.mark.parametrize("seed", [3, 17, 41, 88])
async def test_random_graphs_end_as_in_the_serial_run(seed, tmp_path, monkeypatch):
    file = tmp_path / "random_app.py"
    shutil.copy(random_graphs.__file__, file)
    monkeypatch.setenv("GRAPH_SEED", str(seed))
    graph = random_graphs.build(seed)
    draw = random.Random(seed)
    tasks = {
        one.name: TaskPlan(replicas=draw.randint(1, 2), max_size=one.max_size, wait_ms=1)
        for one in graph.description.tasks
    }
    async with running(file, GraphPlan(tasks=tasks, entry=EntryLimits(items=9))) as executor:
        asked = [executor.submit({"x": str(number).encode()})[1] for number in range(40)]
        ended = await asyncio.gather(*asked, return_exceptions=True)
        assert executor.counters().memory_bytes == 0

    serial = SerialRun(graph, tmp_path)
    for number, outcome in enumerate(ended):
        try:
            wanted = {name: encode_output(value) for name, value in serial.run({"x": number}).items()}
        except ItemFailed:
            assert isinstance(outcome, ItemFailed)
        else:
            assert outcome == wanted


async def test_a_poison_item_fails_alone_with_its_reason(app):
    numbers = [*range(20)]
    async with running(app, planned(Risky=TaskPlan(max_size=4, wait_ms=5))) as executor:
        ended = await outcomes(executor, numbers)
        spans = [one for one in executor.calls.spans if one.item == 14 and one.task == "Risky"]

    assert ended[7] == "Risky: ValueError: 7 is poison"
    assert "its process ended with status 3, 3 times" in ended[13]
    assert [one for at, one in enumerate(ended) if at not in (7, 13)] == answers(
        [one for one in numbers if one not in (7, 13)]
    )
    assert [one.batch for one in spans[1:]] == [1, 1]


@pytest.mark.parametrize("arena_bytes", [0, 1 << 17], ids=["none", "full"])
async def test_without_room_in_shared_memory_values_travel_in_messages(arena_bytes, app, caplog):
    numbers = [*range(20, 60)]
    async with running(app, planned(picture=TaskPlan(replicas=2)), arena_bytes) as executor:
        assert await outcomes(executor, numbers) == answers(numbers)


async def test_items_wait_as_encoded_bytes_outside_of_the_entry(app):
    numbers = [*range(20, 120)]
    async with running(app, planned()) as executor:
        asked = asyncio.ensure_future(outcomes(executor, numbers))
        most: list[tuple[int, int]] = []
        while not asked.done():
            counters = executor.counters()
            most.append((counters.in_flight, counters.memory_bytes))
            await asyncio.sleep(0.005)
        counters = executor.counters()

    assert asked.result() == answers(numbers)
    assert max(inside for inside, _ in most) == 12
    assert max(memory for _, memory in most) < 12 * 130_000
    assert (counters.done, counters.waiting, counters.memory_bytes) == (100, 0, 0)
    assert counters.tasks["slow"].busy_seconds > 0.9
    assert counters.tasks["checked"].bytes_in > 100 * 120_000


async def killed_while_running(file: Path, kills: int) -> None:
    """Kills processes at random while items run, until `kills` of them died."""
    draw = random.Random(7)
    one = TaskPlan(replicas=2)
    async with running(
        file, planned(Risky=TaskPlan(replicas=2, max_size=4), picture=one, slow=one)
    ) as executor:
        began, done, killed = time.monotonic(), 0, 0
        while killed < kills:
            numbers = [draw.randrange(100, 1_000) for _ in range(60)]
            asked = asyncio.ensure_future(outcomes(executor, numbers))
            while not asked.done():
                await asyncio.sleep(draw.uniform(0.05, 0.2))
                ready = sorted(executor.pids.items()) if killed < kills else []
                with contextlib.suppress(ProcessLookupError, IndexError):
                    os.kill(draw.choice(ready)[1], signal.SIGKILL)
                    killed += 1
            ended = await asked
            lost = [reason for reason in ended if isinstance(reason, str)]
            # An item whose processes were killed three times running is given up, with that reason.
            assert all("ended by SIGKILL, 3 times" in reason for reason in lost)
            assert len(lost) <= 2
            wanted = answers(numbers)
            assert all(one == wanted[at] for at, one in enumerate(ended) if not isinstance(one, str))
            done += len(numbers)
            assert time.monotonic() - began < kills * 3 + 60
        assert executor.counters().memory_bytes == 0
        assert executor.counters().done + executor.counters().failed == done


async def test_a_process_that_is_killed_loses_no_item(app):
    await killed_while_running(app, 6)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_two_hundred_killed_processes_lose_no_item(app):
    await killed_while_running(app, 200)


async def test_a_new_plan_takes_over_while_items_go_on(app):
    numbers = [*range(20, 620)]
    async with running(app, planned()) as executor:
        asked = asyncio.ensure_future(outcomes(executor, numbers))
        await asyncio.sleep(0.2)
        more = planned(slow=TaskPlan(replicas=3), Risky=TaskPlan(max_size=2), picture=TaskPlan(threads=2))
        await executor.switch(more)
        assert sorted(name for name in executor.pids if name.startswith("slow")) == [
            "slow#0",
            "slow#1",
            "slow#2",
        ]
        before = executor.counters().tasks["slow"].items
        await executor.switch(planned())
        after = executor.counters()
        assert await asked == answers(numbers)

    assert before < 600
    assert after.tasks["slow"].replicas == 1
    assert sum(one.restarts for one in after.tasks.values()) == 0


async def test_deadlines_and_cancelled_items_leave_the_others_alone(app):
    async with running(app, planned()) as executor:
        others = asyncio.ensure_future(outcomes(executor, [*range(20, 60)]))
        await asyncio.sleep(0)
        _, late = executor.submit({"x": b"90"}, deadline_seconds=0.05)
        number, cancelled = executor.submit({"x": b"91"})
        executor.cancel(number)
        with pytest.raises(ItemFailed, match="its deadline has passed"):
            await late
        with pytest.raises(ItemFailed, match="cancelled"):
            await cancelled
        assert await others == answers([*range(20, 60)])
        counters = executor.counters()

    assert (counters.done, counters.failed, counters.cancelled) == (40, 1, 1)


async def test_a_model_that_cannot_load_is_the_reason_that_nothing_starts(tmp_path):
    with pytest.raises(GraphError, match=r"Model#0: app.py, line 9: KeyError: .*no file 'weights'"):
        async with running(written(tmp_path, apps.BROKEN)):
            pass


def test_a_killed_run_leaves_neither_processes_nor_memory(app, tmp_path):
    lines = tmp_path / "items.jsonl"
    lines.write_text("".join(f"{number}\n" for number in range(100, 5_000)))
    before = set(Path("/dev/shm").iterdir())
    command = [
        sys.executable,
        "-m",
        "slipway.cli",
        "graph",
        "run",
        str(app),
        str(lines),
        "--out",
        str(tmp_path / "out"),
    ]
    with subprocess.Popen(command, start_new_session=True) as run:
        until(lambda: len(list((tmp_path / "out").glob("*.json"))) > 20, 60)
        children = descendants(run.pid)
        run.send_signal(signal.SIGKILL)
    assert len(children) >= 5
    until(lambda: not alive(children), 10)
    assert set(Path("/dev/shm").iterdir()) <= before


def until(is_true: Any, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.05)


async def test_a_plan_for_another_graph_is_refused(app):
    plan = planned()
    async with running(app, plan) as executor:
        with pytest.raises(ValueError, match="digest"):
            await executor.switch(replace(executor.plan, digest="sha256:0").document())
        assert await outcomes(executor, [50]) == answers([50])
        assert json.loads(json.dumps(executor.counters().document()))["done"] == 1


async def test_what_waits_beyond_the_limit_is_refused_and_a_failed_item_runs_again(app):
    plan = planned()
    plan["entry"] = {"items": 2, "bytes": 1 << 30, "waiting": 3}
    async with running(app, plan) as executor:
        ended = await outcomes(executor, list(range(20, 30)))
        assert ended[:5] == answers(list(range(20, 25)))
        assert set(ended[5:]) == {"3 items wait already"}

        assert await outcomes(executor, [7]) == ["Risky: ValueError: 7 is poison"]
        failed = next(one for one in executor.records() if one.state == "failed")
        again = executor.retry(failed.item)
        while executor.records()[0].state != "failed":
            await asyncio.sleep(0.05)
        assert (executor.kept.get(again).retry_of, executor.kept.get(again).reason) == (
            failed.item,
            "Risky: ValueError: 7 is poison",
        )
        done = executor.kept.get(1)
        assert (done.inputs, done.outputs[""][1]) == ({"x": b"20"}, b"201")
        with pytest.raises(GraphError):
            executor.retry(999)
