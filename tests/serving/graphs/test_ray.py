"""Both executors on the same graphs. Ray's own environment is made where there is none: 700 MB, a minute.

Each start of a Ray takes 10 to 30 s.
"""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving.graphs.loading import load_graph
from serving.graphs.plan import EntryLimits, GraphPlan, TaskPlan
from serving.graphs.ray.environment import environment
from serving.worker_command import default_environments
from tests.serving.graphs import apps, random_graphs
from tests.serving.runtime.rig import alive, descendants

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SEEDS = (3, 17, 41, 88)
ENVIRON = os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a" * 64}
"""With the token that a Ray demands, which it reads itself."""


@pytest.fixture(scope="module")
def python() -> Path:
    """Returns the Python of Ray's environment."""
    return environment().ensure(default_environments()) / "bin" / "python"


@pytest.fixture(scope="module")
def address(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Ray that is there already."""
    port, home = free_port(), tmp_path_factory.mktemp("ray")
    command = [str(python), "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--port={port}"]
    more = ["--num-cpus=20", "--include-dashboard=false", "--disable-usage-stats", f"--temp-dir=/tmp/r{port}"]
    with (home / "log").open("w") as log:
        head = subprocess.Popen([*command, *more], stdout=log, stderr=log, env=ENVIRON)
    try:
        until(lambda: "Ray runtime started" in (home / "log").read_text(), 120)
        yield f"127.0.0.1:{port}"
    finally:
        started = descendants(head.pid)
        head.send_signal(signal.SIGTERM)
        head.wait(60)
        until(lambda: not alive(started), 60)
        shutil.rmtree(f"/tmp/r{port}", ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(is_true: Any, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.1)


def run(file: Path, numbers: list[int], *more: str, status: int = 0, says: str = "") -> dict[str, bytes]:
    """Files that the command writes. `says`: what its messages must hold."""
    lines, out = file.with_name("items.jsonl"), file.with_name("out")
    shutil.rmtree(out, ignore_errors=True)
    lines.write_text("".join(f"{number}\n" for number in numbers))
    command = [sys.executable, "-m", "slipway.cli", "graph", "run", str(file), str(lines), f"--out={out}"]
    ended = subprocess.run(
        [*command, *more], capture_output=True, text=True, check=False, timeout=300, env=ENVIRON
    )
    assert ended.returncode == status, ended.stderr[-3_000:]
    assert says in ended.stderr, ended.stderr[-3_000:]
    return {path.name: path.read_bytes() for path in out.iterdir()}


def plan_file(file: Path, **tasks: TaskPlan) -> str:
    one = GraphPlan.of_one_each(load_graph(file).description)
    plan = GraphPlan(tasks={**one.tasks, **tasks}, entry=EntryLimits(items=9))
    place = file.with_name("plan.json")
    place.write_text(json.dumps(plan.document()))
    return f"--plan={place}"


@pytest.fixture
def difficult(tmp_path: Path) -> Path:
    file = tmp_path / "app.py"
    file.write_text(apps.DIFFICULT)
    return file


@pytest.mark.parametrize("executor", ["embedded", "ray"])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_executor_writes_the_bytes_of_the_serial_run(seed, executor, address, tmp_path):
    file, source = tmp_path / "app.py", Path(random_graphs.__file__).read_text()
    file.write_text(source.replace('os.environ.get("GRAPH_SEED")', repr(str(seed))))
    graph = random_graphs.build(seed)
    plan = plan_file(file, **{name: TaskPlan(replicas=2) for name in [graph.description.tasks[0].name]})
    where = [f"--address={address}"] if executor == "ray" else []
    numbers = [*range(40)]
    serially = run(file, numbers, "--serial", status=status_of(seed, numbers))
    got = run(file, numbers, plan, f"--executor={executor}", *where, status=status_of(seed, numbers))
    assert without_reasons(got) == without_reasons(serially)
    if executor == "ray":
        assert got == serially


def status_of(seed: int, numbers: list[int]) -> int:
    """The exit status: 1 where items fail."""
    from serving.graphs.errors import ItemFailed
    from serving.graphs.serial import SerialRun

    serial = SerialRun(random_graphs.build(seed), Path())
    try:
        for number in numbers:
            serial.run({"x": number})
    except ItemFailed:
        return 1
    return 0


def without_reasons(files: dict[str, bytes]) -> dict[str, Any]:
    """Which of several calls of an item fails first is for executors that run them side by side to say."""
    failed = [json.loads(line)["item"] for line in files.get("failed.jsonl", b"").splitlines()]
    return {**files, "failed.jsonl": failed}


def test_a_poison_item_fails_alone_though_it_ends_its_process(difficult, address):
    files = run(difficult, [*range(24)], "--executor=ray", f"--address={address}", status=1)
    failed = [json.loads(line) for line in files.pop("failed.jsonl").splitlines()]
    assert [(int(one["item"]) - 1, one["reason"]) for one in failed] == [
        (7, "Risky: ValueError: 7 is poison"),
        (13, "Risky: its process ended, 3 times"),
    ]
    assert {name: int(data) for name, data in files.items()} == {
        f"{number + 1:06d}.json": number * 10 + 1 for number in range(24) if number not in (7, 13)
    }


def test_a_plan_that_the_cluster_cannot_run_is_refused_with_what_is_short(difficult, address):
    plan = plan_file(difficult, slow=TaskPlan(replicas=20))
    short = "the plan needs 23 CPU and the cluster has 20"
    run(difficult, [1], plan, "--executor=ray", f"--address={address}", status=2, says=short)


def test_a_model_that_cannot_load_is_the_reason_that_nothing_runs(tmp_path, address):
    file = tmp_path / "app.py"
    file.write_text(apps.BROKEN)
    run(file, [1], "--executor=ray", f"--address={address}", status=2, says="no file 'weights'")


def test_a_killed_run_leaves_no_ray_behind(difficult):
    lines, out = difficult.with_name("items.jsonl"), difficult.with_name("out")
    lines.write_text("".join(f"{number}\n" for number in range(100, 50_000)))
    before = {*Path(tempfile.gettempdir()).glob("slipway-ray-*")}
    command = [sys.executable, "-m", "slipway.cli", "graph", "run", str(difficult), str(lines)]
    with subprocess.Popen([*command, f"--out={out}", "--executor=ray"], start_new_session=True) as child:
        until(lambda: out.is_dir() and len([*out.glob("*.json")]) > 5, 240)
        started = descendants(child.pid)
        child.send_signal(signal.SIGKILL)
    assert len(started) > 5
    until(lambda: not alive(started), 60)
    for logs in {*Path(tempfile.gettempdir()).glob("slipway-ray-*")} - before:
        shutil.rmtree(logs)


def test_ray_serve_answers_as_the_embedded_service_does(difficult):
    port = free_port()
    plan = plan_file(difficult, slow=TaskPlan(replicas=2))
    command = [sys.executable, "-m", "slipway.cli", "graph", "serve", str(difficult), f"--port={port}", plan]
    log = difficult.with_name("log")
    with log.open("w") as file:
        served = subprocess.Popen(command, stderr=file, start_new_session=True)
    try:
        until(lambda: "/run serves difficult" in log.read_text(), 240)
        numbers = [*range(20, 60)]
        assert asyncio.run(asked(port, numbers)) == [(200, str(one * 10 + 1).encode()) for one in numbers]
        status, body = request(port, 7)
        assert (status, json.loads(body)["detail"]) == (422, "Risky: ValueError: 7 is poison")
        status, body = request(port, 13)
        assert status == 422
        assert "Risky: its process ended" in json.loads(body)["detail"]
        until(lambda: request(port, 30) == (200, b"301"), 60)
    finally:
        started = descendants(served.pid)
        os.killpg(served.pid, signal.SIGINT)
        served.wait(60)
    until(lambda: not alive(started), 60)
    assert served.returncode == 0


async def asked(port: int, numbers: list[int]) -> list[tuple[int, bytes]]:
    return await asyncio.gather(*(asyncio.to_thread(request, port, number) for number in numbers))


def request(port: int, number: int) -> tuple[int, bytes]:
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/run", str(number).encode())
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
