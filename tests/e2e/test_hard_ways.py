"""The main job where something fails: bad versions, parts that are gone, workers killed at their work."""

from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from slipway.client import at
from tests.e2e.conftest import MODEL, SERVICE, SWIFT, Scene, Traffic, running_scene
from tests.patience import eventually
from tests.postgres import PostgresServer

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Statements, locks and isolation are others here than on SQLite, where test_main_path.py runs."""
    server = PostgresServer(migrated=True)
    try:
        with running_scene(tmp_path_factory.mktemp("e2e") / "home", database_url=server.url) as scene:
            yield scene
    finally:
        server.stop()


def test_a_bad_version_is_rolled_back_by_the_judge_alone(scene: Scene, traffic: Traffic) -> None:
    stable = scene.admin.get(at("services", SERVICE))["stable"]
    scene.push("bad", seed=9, serving={"fail_share": 0.4})
    plan = scene.admin.get(at("plans", "swift"))["body"]
    steps = [step | ({"seconds": 120} if step["kind"] == "hold" else {}) for step in plan["steps"]]
    steps = [step for step in steps if step["kind"] != "smoke_test"]
    scene.admin.create(at("plans"), {"name": "patient", "body": plan | {"name": "patient", "steps": steps}})

    release = scene.wait_for(scene.release("bad", plan="patient"), "rolled_back", "failed")

    assert release["state"] == "rolled_back"
    assert release["halted_by"] == "slipway"
    assert "5xx" in release["outcome"]
    assert release["verdict"]["decision"] == "roll_back"
    assert scene.ask(release="canary").headers["x-slipway-version"] == stable


@pytest.mark.slow
def test_without_celery_and_valkey_the_sweeper_alone_brings_a_release_to_its_end(
    scene: Scene, traffic: Traffic
) -> None:
    supervisor = scene.stack.supervisor
    for part in ("worker", "valkey"):
        supervisor.stop(part)
    try:
        release = scene.wait_for(scene.release("v3"), "waiting_approval")
        scene.admin.post(at("releases", release["id"], "approve"), {"reason": "the sweeper is enough"})
        scene.wait_for(release, "promoted")
    finally:
        for part in ("valkey", "worker"):
            supervisor.start(part)
    assert scene.ask().headers["x-slipway-version"] == f"{MODEL}:v3"
    assert traffic.failures == []


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param({step["kind"] for step in SWIFT["steps"]}, marks=pytest.mark.slow, id="every step"),
        pytest.param({"hold", "approval"}, id="two of them"),
    ],
)
def test_killing_workers_with_9_changes_nothing_in_the_end(
    scene: Scene, traffic: Traffic, steps: set[str]
) -> None:
    version = "v1" if scene.admin.get(at("services", SERVICE))["stable"] != f"{MODEL}:v1" else "v2"
    release = scene.release(version)
    killed: set[str] = set()

    def state() -> str:
        seen = scene.admin.get(at("releases", release["id"]))
        running = next((step["kind"] for step in seen["steps"] if step["state"] == "running"), "")
        if running in steps - killed:
            killed.add(running)
            for part in ("worker", "sweeper"):
                pid = scene.stack.supervisor.processes()[part].pid
                if pid is not None:
                    for process in [*psutil.Process(pid).children(recursive=True), psutil.Process(pid)]:
                        with suppress(psutil.NoSuchProcess):
                            process.kill()
        return str(seen["state"])

    eventually(lambda: state() in ("waiting_approval", "failed", "rolled_back", "stuck"), seconds=300)
    assert state() == "waiting_approval"
    scene.admin.post(at("releases", release["id"], "approve"), {"reason": "still here"})
    eventually(lambda: state() in ("promoted", "failed", "rolled_back", "stuck"), seconds=300)
    assert state() == "promoted"
    assert {"hold", "approval"} <= killed
    assert traffic.failures == []
