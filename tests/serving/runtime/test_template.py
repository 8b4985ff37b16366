"""CPU processes are forked of a template that has imported the app once."""

import os
import signal
from pathlib import Path

import pytest

from tests.serving.runtime.rig import BackgroundCall, pids, service
from tests.serving.workers import RunningWorker, wait_until

pytestmark = pytest.mark.process

APP = """
import os
from pathlib import Path
from slipway import serve

with (Path(__file__).parent / "imports").open("a") as file:
    file.write("once\\n")

app = serve.App(processes=3)
large = os.urandom(64 << 20)

@app.post("/pid")
def pid():
    return os.getpid()
"""


def imports(directory: Path) -> int:
    return len((directory / "imports").read_text().split())


def own_megabytes(pid: int) -> float:
    """Memory that no other process shares."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def cpu_pids(worker: RunningWorker) -> set[int]:
    return {pid for name, pid in pids(worker).items() if name.startswith("cpu")}


def test_the_app_is_imported_once_and_its_memory_shared(tmp_path: Path) -> None:
    with service(tmp_path, APP) as worker:
        assert worker.post("/pid").json() in cpu_pids(worker)
        assert imports(tmp_path) == 1
        assert max(own_megabytes(pid) for pid in cpu_pids(worker)) < 40


def test_without_its_template_a_service_goes_on_and_gets_another(tmp_path: Path) -> None:
    with service(tmp_path, APP) as worker:
        before, template = cpu_pids(worker), pids(worker)["template"]
        os.kill(template, signal.SIGKILL)
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: len(now := cpu_pids(worker)) == 3 and not now & before, seconds=60)
        assert pids(worker)["template"] != template
        assert worker.post("/pid").json() in cpu_pids(worker)


@pytest.mark.parametrize(
    ("top", "reason"),
    [
        ("import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()", "threads"),
        ("import socket; connected = socket.socketpair()", "connections"),
    ],
)
def test_what_forks_cannot_share_is_imported_by_each_process(tmp_path: Path, top: str, reason: str) -> None:
    with service(tmp_path, APP + top) as worker:
        assert imports(tmp_path) == 1 + 3
        assert f"it {'starts' if reason == 'threads' else 'opens'} {reason} at its top" in worker.log
        assert "template" not in pids(worker)
        victim = worker.post("/pid").json()
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: len(now := cpu_pids(worker)) == 3 and victim not in now, seconds=60)


def test_torch_computes_with_its_threads_in_a_fork(tmp_path: Path) -> None:
    source = """
import torch
from slipway import serve

app = serve.App(processes=2)

@app.post("/product")
def product():
    torch.set_num_threads(2)
    return float((torch.ones(512, 512) @ torch.ones(512, 512)).exp().sum().isinf())
"""
    with service(tmp_path, source) as worker:
        assert "template" in pids(worker)
        assert [worker.post("/product").json() for _ in range(4)] == [1.0] * 4


def test_forks_draw_different_random_numbers(tmp_path: Path) -> None:
    source = """
import random, time
import numpy as np
from slipway import serve

app = serve.App(processes=3)

@app.post("/draw")
def draw():
    time.sleep(0.3)
    return [random.random(), float(np.random.random())]
"""
    with service(tmp_path, source) as worker:
        asked = [BackgroundCall(worker, "/draw") for _ in range(3)]
        drawn = [number for one in asked for number in one.result()[1]]
        assert len(set(drawn)) == 6
