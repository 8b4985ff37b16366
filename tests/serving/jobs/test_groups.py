"""Groups of real workers on a real queue: who takes jobs, and what happens to the one in hand."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from serving.jobs.groups import GroupAssignment
from serving.jobs.redis_store import RedisJobStore
from serving.worker_command import JOBS_URL
from tests.serving.runtime.rig import pids
from tests.serving.workers import RunningWorker, running, wait_until
from tests.valkey import ValkeyServer

pytestmark = pytest.mark.process
POOL = ("talk", "shapes-1")
APP = """
import time
from slipway import serve

app = serve.App(processes=1)

@app.post("/ask")
def ask(request):
    time.sleep(request.seconds)
    return {}

@app.job("/work", attempts=1)
def work(request, progress):
    for step in range(request.steps):
        progress(step / request.steps)
        time.sleep(0.05)
    return {}
"""


class GroupScene:
    def __init__(self, home: Path, valkey: ValkeyServer, stack: ExitStack) -> None:
        (home / "app").mkdir()
        (home / "app/app.py").write_text(APP)
        self._url, self._fence = valkey.url, 0
        options: dict[str, Any] = {
            "engine": "app", "model_dir": home / "app", "deployment": "shapes-1",
        }  # fmt: skip
        made = running(home / "log", {JOBS_URL: valkey.url}, name="w-0", **options)
        self.worker: RunningWorker = stack.enter_context(made).until_ready()

    def assign(self, *offline: str, wait_seconds: float = 0.0) -> bool:
        self._fence += 1
        given = GroupAssignment(offline=frozenset(offline), wait_seconds=wait_seconds, fence=self._fence)
        return self.set(given)

    def set(self, given: GroupAssignment) -> bool:
        async def asked() -> bool:
            store = RedisJobStore.at(self._url)
            try:
                return await store.assign(POOL, given)
            finally:
                await store.close()

        return asyncio.run(asked())

    def submit(self, steps: int = 1) -> str:
        answer = self.worker.post("/work", steps=steps)
        assert answer.status_code == 202, answer.text
        return answer.headers["location"]

    def until(self, job: str, state: str) -> dict[str, Any]:
        def seen() -> dict[str, Any]:
            return dict(self.worker.client.get(f"{self.worker.url}{job}").json())

        wait_until(lambda: seen()["state"] == state, seconds=20, what=f"the state {state}")
        return seen()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[GroupScene]:
    valkey = ValkeyServer()
    valkey.start()
    with ExitStack() as stack:
        stack.callback(valkey.remove)
        yield GroupScene(tmp_path, valkey, stack)


def test_a_worker_changes_its_group_without_a_new_process(scene: GroupScene) -> None:
    before = pids(scene.worker)
    assert scene.assign()
    time.sleep(1.0)
    job = scene.submit()
    time.sleep(1.5)
    assert scene.until(job, "queued")["attempts"] == 0, "online: it takes no job"

    assert scene.assign("w-0")
    scene.until(job, "succeeded")
    assert scene.worker.post("/ask", seconds=0).status_code == 200, "a late request is answered all the same"
    assert pids(scene.worker) == before


def test_the_job_in_hand_ends_or_goes_back_as_its_wait_says(scene: GroupScene) -> None:
    before = pids(scene.worker)
    scene.assign("w-0")
    short = scene.submit(steps=40)
    scene.until(short, "running")
    scene.assign(wait_seconds=30)
    assert scene.until(short, "succeeded")["attempts"] == 1

    scene.assign("w-0")
    long = scene.submit(steps=200)
    scene.until(long, "running")
    scene.assign()
    assert scene.until(long, "queued")["attempts"] == 0, "no attempt was spent: it had one"
    assert pids(scene.worker) == before


def test_requests_come_before_the_next_job(scene: GroupScene) -> None:
    scene.assign("w-0")
    time.sleep(1.0)
    asking = threading.Thread(target=scene.worker.post, args=("/ask",), kwargs={"seconds": 3})
    asking.start()
    time.sleep(0.5)
    job = scene.submit()
    time.sleep(1.0)
    scene.until(job, "queued")
    asking.join(10)
    scene.until(job, "succeeded")


def test_a_late_writer_changes_no_group(scene: GroupScene) -> None:
    assert scene.set(GroupAssignment(offline=frozenset({"w-0"}), fence=9))
    assert not scene.set(GroupAssignment(offline=frozenset(), fence=8))
