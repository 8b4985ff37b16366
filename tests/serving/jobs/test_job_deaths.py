"""Jobs of real workers on a Redis with an append-only file: what survives whose death."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from serving.worker_command import JOBS_URL
from tests.serving.runtime.rig import pids
from tests.serving.workers import RunningWorker, running, wait_until
from tests.valkey import ValkeyServer

pytestmark = pytest.mark.process

APP = """
import os, time
from slipway import serve

app = serve.App(processes=1)

@app.job("/work", attempts=4, backoff_seconds=0.1)
def work(request, progress):
    with open(request.effects, "a") as file:
        file.write(request.headers["idempotency-key"] + "\\n")
    for step in range(request.steps):
        progress(step / request.steps, "at " + str(os.getpid()))
        time.sleep(0.05)
    return {"by": os.getpid()}
"""


class Scene:
    """Workers of one deployment, and the handlers' effects."""

    def __init__(self, home: Path, valkey: ValkeyServer, stack: ExitStack) -> None:
        self.home, self.valkey, self._stack = home, valkey, stack
        self.effects = home / "effects"
        (home / "app").mkdir()
        (home / "app/app.py").write_text(APP)

    def worker(self, name: str, **options: Any) -> RunningWorker:
        made = running(
            self.home / f"{name}.log",
            {JOBS_URL: self.valkey.url},
            engine="app",
            model_dir=self.home / "app",
            name=name,
            deployment="shapes-1",
            **options,
        )
        return self._stack.enter_context(made).until_ready()

    def submit(self, worker: RunningWorker, steps: int = 1) -> str:
        answer = worker.post("/work", steps=steps, effects=str(self.effects))
        assert answer.status_code == 202, answer.text
        return answer.headers["location"]

    def times(self, address: str) -> int:
        """Count how often the handler was begun with this job's key."""
        return Counter(self.effects.read_text().split())[address.rpartition("/")[2]]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    valkey = ValkeyServer(keeps_file=True)
    valkey.start()
    with ExitStack() as stack:
        stack.callback(valkey.remove)
        yield Scene(tmp_path, valkey, stack)


def shown(worker: RunningWorker, address: str) -> dict[str, Any]:
    answer = worker.client.get(f"{worker.url}{address}")
    return answer.json() if answer.status_code == 200 else {"state": f"{answer.status_code}"}


def until(worker: RunningWorker, address: str, state: str, seconds: float = 60) -> dict[str, Any]:
    wait_until(lambda: shown(worker, address)["state"] == state, seconds=seconds, what=f"the state {state}")
    return shown(worker, address)


def test_a_killed_worker_loses_no_job_at_any_stage(scene: Scene) -> None:
    first = scene.worker("w-0")
    done = scene.submit(first)
    until(first, done, "succeeded")
    at_work = scene.submit(first, steps=40)
    until(first, at_work, "running")
    waiting = [scene.submit(first) for _ in range(5)]
    first.process.kill()
    second = scene.worker("w-1")
    # Any worker answers for any job.
    assert shown(second, done)["state"] == "succeeded"
    assert [until(second, one, "succeeded")["attempts"] for one in (at_work, *waiting)] == [2, 1, 1, 1, 1, 1]
    assert [scene.times(one) for one in (done, at_work, *waiting)] == [1, 2, 1, 1, 1, 1, 1]


def test_a_job_whose_process_dies_is_tried_again(scene: Scene) -> None:
    worker = scene.worker("w-0")
    job = scene.submit(worker, steps=20)
    until(worker, job, "running")
    os.kill(pids(worker)["job#0"], signal.SIGKILL)
    assert until(worker, job, "succeeded")["attempts"] == 2


def test_jobs_outlive_a_redis_that_is_killed(scene: Scene) -> None:
    worker = scene.worker("w-0")
    at_work = scene.submit(worker, steps=60)
    until(worker, at_work, "running")
    waiting = [scene.submit(worker) for _ in range(5)]
    scene.valkey.stop()
    refused = worker.post("/work", steps=1, effects=str(scene.effects))
    assert (refused.status_code, refused.json()["title"]) == (503, "Queue unreachable")
    scene.valkey.start()
    assert [until(worker, one, "succeeded")["attempts"] for one in (at_work, *waiting)] == [1] * 6
    assert [scene.times(one) for one in (at_work, *waiting)] == [1] * 6


@pytest.mark.slow
def test_a_worker_that_drains_finishes_what_it_can_and_gives_the_rest_back(scene: Scene) -> None:
    first, second = (scene.worker(name, grace_seconds=2.0) for name in ("w-0", "w-1"))
    long, short = scene.submit(first, steps=300), scene.submit(second, steps=20)
    for one in (long, short):
        until(first, one, "running")
    for worker in (first, second):
        worker.process.terminate()
    assert (first.wait(30), second.wait(30)) == (0, 0)
    third = scene.worker("w-2")
    assert shown(third, short) == until(third, short, "succeeded")
    assert until(third, long, "succeeded")["attempts"] == 1
    assert (scene.times(short), scene.times(long)) == (1, 2)


def test_a_job_is_cancelled_and_followed_from_any_worker(scene: Scene) -> None:
    first, second = scene.worker("w-0"), scene.worker("w-1")
    job = scene.submit(first, steps=1_000)
    until(first, job, "running")
    with second.client.stream("GET", f"{second.url}{job}/events") as events:
        assert second.client.delete(f"{second.url}{job}").status_code == 202
        last = [line for line in events.iter_lines() if line][-1]
    assert '"state": "cancelled"' in last
    assert first.client.post(f"{first.url}{job}/retry").json()["state"] == "queued"
