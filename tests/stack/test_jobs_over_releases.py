"""Queued jobs through whole releases: they end on the version they were sent to, or on the next one."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from slipway.client import Document, at
from tests.e2e.conftest import SWIFT, Scene
from tests.patience import eventually
from tests.prepared import prepare_home
from tests.stack.conftest import RunningStack

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(900)]

MODEL = SERVICE = "painter"
NEEDS_NO_TRAFFIC = ("scan", "deploy", "weight", "approval", "promote")
APP = """
import time
from pathlib import Path

from slipway import serve

app = serve.App(processes=1, job_processes=1)


def painted(request):
    order = request.json()
    while order.get("until") and not Path(order["until"]).exists():
        time.sleep(0.05)
    return {"by": (Path(__file__).parent / "name.txt").read_text()}


@app.job("/follows")
def follows(request):
    return painted(request)


@app.job("/stays", on_release="same")
def stays(request):
    return painted(request)
"""


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A stack with a service whose one process for jobs takes one at a time."""
    prepare_home(tmp_path / "home")
    stack = RunningStack(tmp_path / "home", "controlplane.embedded")
    try:
        stack.wait_until_ready(seconds=300)
        scene = Scene(stack)
        scene.admin.create(at("models"), {"name": MODEL})
        exempt = ("exemption", "add", "default", "--model", MODEL, "--reason", "Our own code.")
        assert scene.slipway(*exempt).returncode == 0
        for name in ("v1", "v2", "v3"):
            source = stack.home.path / "imports" / MODEL / name
            source.mkdir(parents=True)
            (source / "app.py").write_text(APP)
            (source / "name.txt").write_text(name)
            address = at("models", MODEL, "versions")
            scene.admin.create(address, {"source": str(source), "version": name})
            eventually(
                lambda name=name: scene.admin.get(at("models", MODEL, "versions", name))["state"] == "ready"
            )
        plan = SWIFT | {"steps": [one for one in SWIFT["steps"] if one["kind"] in NEEDS_NO_TRAFFIC]}
        scene.admin.create(at("plans"), {"name": "swift", "body": plan})
        service = scene.admin.create(
            at("services"),
            {"name": SERVICE, "model": MODEL, "version": "v1", "engine": "app", "plan": "swift"},
        )
        first = scene.wait_for({"id": service["release_in_motion"]}, "promoted", "failed", "stuck")
        assert first["state"] == "promoted", first
        yield scene
    finally:
        stack.stop()


def submit(scene: Scene, path: str, *, release: str = "", **order: Any) -> str:
    headers = {"x-release": release} if release else {}
    answer = httpx2.post(f"{scene.gateway}/{SERVICE}/{path}", json=order, headers=headers, timeout=30)
    assert answer.status_code == 202, answer.text
    job_id = str(answer.json()["id"])
    eventually(lambda: is_listed(scene, job_id), seconds=60, every=0.2)
    return job_id


def is_listed(scene: Scene, job_id: str) -> bool:
    """The control plane follows the queue within seconds."""
    rows = scene.admin.get(at("jobs"), service=SERVICE)["results"]
    return job_id in {one["id"] for one in rows}


def job(scene: Scene, job_id: str) -> Document:
    return scene.admin.get(at("jobs", job_id))


def painter(scene: Scene, job_id: str) -> str:
    """The version that did the job, once it has succeeded."""
    eventually(lambda: job(scene, job_id)["state"] not in ("queued", "running"), seconds=60, every=0.2)
    done = job(scene, job_id)
    assert (done["state"], done["attempts"]) == ("succeeded", 1), done
    return str(json.loads(scene.admin.content(at("jobs", job_id, "result")))["by"])


def test_waiting_jobs_end_on_their_version_or_on_the_next_one_through_a_promotion_and_an_abort(
    scene: Scene, tmp_path: Path
) -> None:
    opened = [tmp_path / name for name in ("first", "second")]
    blocker = submit(scene, "stays", until=str(opened[0]))
    eventually(lambda: job(scene, blocker)["state"] == "running", seconds=30)
    follows = [submit(scene, "follows") for _ in range(3)]
    stays = [submit(scene, "stays") for _ in range(3)]
    release = scene.release("v2", service=SERVICE)
    seen = scene.wait_for(release, "waiting_approval", "failed", "rolled_back", "stuck")
    assert seen["state"] == "waiting_approval", seen
    assert {job(scene, one)["state"] for one in (*follows, *stays)} == {"queued"}
    scene.admin.post(at("releases", release["id"], "approve"), {"reason": "fine"})
    assert scene.wait_for(release, "promoted", "failed", "rolled_back", "stuck")["state"] == "promoted"

    assert {painter(scene, one) for one in follows} == {"v2"}
    assert job(scene, blocker)["state"] == "running"
    assert len(scene.workers()) == 2  # those of v1 stay for what wants them
    opened[0].touch()
    assert {painter(scene, one) for one in (blocker, *stays)} == {"v1"}
    eventually(lambda: len(scene.workers()) == 1, seconds=60, every=0.5)

    release = scene.release("v3", service=SERVICE)
    scene.wait_for(release, "waiting_approval", "failed", "rolled_back", "stuck")
    running = submit(scene, "follows", release="canary", until=str(opened[1]))
    eventually(lambda: job(scene, running)["state"] == "running", seconds=30)
    waiting = [submit(scene, "follows", release="canary") for _ in range(3)]
    assert {job(scene, one)["version"] for one in (running, *waiting)} == {f"{MODEL}:v3"}
    scene.admin.post(at("releases", release["id"], "abort"), {"reason": "not better"})
    assert scene.wait_for(release, "aborted", "failed", "stuck")["state"] == "aborted"
    assert {painter(scene, one) for one in waiting} == {"v2"}
    # Its worker gives the running one back when the time to drain is over.
    eventually(lambda: job(scene, running)["version"] == f"{MODEL}:v2", seconds=90, every=0.5)
    opened[1].touch()
    assert painter(scene, running) == "v2"
