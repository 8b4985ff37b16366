"""Processes that die at any moment: only what was in them is lost, and nothing stays behind."""

import itertools
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.serving.runtime.rig import BackgroundCall, alive, descendants, pids, service
from tests.serving.workers import RunningWorker, wait_until

pytestmark = pytest.mark.process

APP = """
import time
import numpy as np
from slipway import serve

class Adder(serve.GpuModel):
    def load(self, files):
        time.sleep(0.2)

    @serve.batched(max_size=8, max_wait_ms=2)
    def add(self, arrays):
        time.sleep(0.01)
        return [array + 1 for array in arrays]

    def sleep(self, seconds):
        time.sleep(seconds)

    def count(self, numbers):
        for number in range(numbers):
            time.sleep(0.01)
            yield number

app = serve.App(processes=3)

@app.post("/add")
def add():
    return float(serve.get(Adder).run("add", np.zeros(50_000, np.float32)).sum())

@app.post("/think")
def think(request):
    time.sleep(request.seconds)
    return "thought"

@app.post("/sleep")
def sleep(request):
    serve.get(Adder).run("sleep", request.seconds)

@app.stream("/count")
def count(request):
    yield from serve.get(Adder).stream("count", request.numbers)

@app.job("/job")
def job(request, progress):
    time.sleep(request.seconds)

@app.process
def feed():
    time.sleep(3_600)
"""
STAGES = {
    "idle": None,
    "in the handler": ("/think", {"seconds": 1.0}),
    "in the model": ("/sleep", {"seconds": 1.0}),
    "in a stream": ("/count", {"numbers": 200}),
}


@contextmanager
def served(directory: Path) -> Iterator[RunningWorker]:
    with service(directory, APP) as worker:
        yield worker


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    with served(tmp_path_factory.mktemp("deaths")) as running:
        yield running


@pytest.mark.parametrize(("victim", "stage"), list(itertools.product(("cpu", "Adder", "template"), STAGES)))
def test_a_killed_process_loses_its_own_requests_and_comes_back(
    worker: RunningWorker, victim: str, stage: str
) -> None:
    before = pids(worker)
    asked = [BackgroundCall(worker, *STAGES[stage])] if STAGES[stage] else []  # type: ignore[misc]
    if asked:
        wait_until(lambda: worker.health()[1]["in_flight"] == 1, seconds=30)
        time.sleep(0.1)
    killed = [pid for name, pid in before.items() if name.startswith(victim)]
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    for one in asked:
        status, answer = one.result()
        if victim == "cpu":
            is_stream = status == 200
            assert is_stream or (status, answer["title"]) == (500, "Process ended")
            assert not is_stream or b"Process ended" in answer
        elif victim == "Adder" and stage in ("in the model", "in a stream"):
            is_stream = status == 200
            assert is_stream or (status, answer["title"]) == (503, "Model process ended")
            assert not is_stream or b"Model process ended" in answer
        else:
            assert status in (200, 204)
    wait_until(
        lambda: len(now := pids(worker)) == len(before) and not set(killed) & set(now.values()), seconds=60
    )
    assert worker.post("/add").json() == 50_000.0
    assert worker.health()[1]["in_flight"] == 0


def test_while_a_model_loads_again_its_calls_are_refused_and_others_answered(worker: RunningWorker) -> None:
    os.kill(pids(worker)["Adder#0"], signal.SIGKILL)
    seen: Counter[int] = Counter()
    took: list[float] = []
    wait_until(lambda: "Adder#0" not in pids(worker), seconds=30)
    while "Adder#0" not in pids(worker):
        began = time.monotonic()
        answer = worker.post("/add")
        took.append(time.monotonic() - began)
        seen[answer.status_code] += 1
        assert answer.status_code in (200, 503)
        assert answer.status_code == 200 or answer.headers["retry-after"] == "1"
        assert worker.post("/think", seconds=0).status_code == 200
    assert seen[503], "its load takes 0.2 s"
    assert max(took) < 1.0, "a call waited for the load"
    wait_until(lambda: worker.post("/add").status_code == 200, seconds=30)


def test_a_job_whose_process_dies_is_tried_again(worker: RunningWorker) -> None:
    address = worker.post("/job", seconds=3).headers["location"]

    def job(name: str) -> object:
        return worker.client.get(f"{worker.url}{address}").json()[name]

    wait_until(lambda: job("state") == "running", seconds=30)
    os.kill(pids(worker)["job#0"], signal.SIGKILL)
    wait_until(lambda: job("state") == "succeeded", seconds=60)
    assert job("attempts") == 2


def test_processes_of_the_users_own_are_kept(worker: RunningWorker) -> None:
    before = pids(worker)["feed#0"]
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: pids(worker).get("feed#0", before) != before, seconds=60)


def test_a_killed_front_takes_all_of_its_processes_with_it(tmp_path: Path) -> None:
    with served(tmp_path) as running:
        client = threading.Thread(target=_ignored, args=(f"{running.url}/sleep",), daemon=True)
        client.start()
        time.sleep(0.3)
        all_of_them = descendants(running.process.pid)
        assert len(all_of_them) == 8
        shared = _shared_memory()
        running.process.kill()
        running.wait(10)
        wait_until(lambda: not alive(all_of_them), seconds=10, what="the end of its processes")
        assert _shared_memory() <= shared


def _ignored(url: str) -> None:
    try:
        httpx2.post(url, json={"seconds": 30}, timeout=20)
    except httpx2.HTTPError:
        return


def _shared_memory() -> set[str]:
    return set(os.listdir("/dev/shm"))  # noqa: PTH208


def test_a_drain_finishes_a_stream_and_ends_every_process(tmp_path: Path) -> None:
    with served(tmp_path) as running:
        asked = BackgroundCall(running, "/count", {"numbers": 100})
        wait_until(lambda: running.health()[1]["in_flight"] == 1, seconds=30)
        all_of_them = descendants(running.process.pid)
        running.process.send_signal(signal.SIGTERM)
        status, answer = asked.result()
        assert (status, answer.count(b"data:")) == (200, 100)
        assert running.wait(20) == 0
        wait_until(lambda: not alive(all_of_them), seconds=30)


def test_a_process_that_grows_too_large_is_replaced(tmp_path: Path) -> None:
    source = APP.replace(
        "class Adder(serve.GpuModel):", "class Adder(serve.GpuModel):\n    memory_mb = 300"
    ).replace("time.sleep(seconds)\n\n    def count", "self.kept = b'x' * 400_000_000\n\n    def count")
    with service(tmp_path, source) as running:
        before = pids(running)["Adder#0"]
        running.post("/sleep", seconds=0)
        wait_until(lambda: pids(running).get("Adder#0", before) != before, seconds=60)
        assert "more than its 300 MB" in running.log


@pytest.mark.slow
def test_after_200_kills_under_load_nothing_is_left_and_all_is_back(tmp_path: Path) -> None:
    chance = random.Random(4)
    with served(tmp_path) as running:
        seen: Counter[int] = Counter()
        is_over = threading.Event()

        def load() -> None:
            with httpx2.Client(timeout=30) as client:
                while not is_over.is_set():
                    seen[client.post(f"{running.url}/add").status_code] += 1

        clients = [threading.Thread(target=load, daemon=True) for _ in range(4)]
        for client in clients:
            client.start()
        descriptors = _descriptors(running.process.pid)
        for _ in range(200):
            time.sleep(chance.uniform(0.05, 0.4))
            if there := [pid for name, pid in pids(running).items() if not name.startswith("feed")]:
                os.kill(chance.choice(there), signal.SIGKILL)
        wait_until(lambda: len(pids(running)) == 7, seconds=30, what="all processes")
        is_over.set()
        for client in clients:
            client.join(30)
        assert seen.keys() <= {200, 500, 503}
        assert seen[200] > seen[500], seen
        assert len(descendants(running.process.pid)) == 8
        assert _descriptors(running.process.pid) <= descriptors + 4
        assert running.post("/add").json() == 50_000.0


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208
