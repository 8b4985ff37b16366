"""The main job on PostgreSQL, whose statements, locks and isolation are others; its workers killed there."""

from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from tests.e2e.conftest import MODEL, SERVICE, Scene, Traffic
from tests.e2e.test_main_path import (
    test_a_pipeline_releases_waits_for_a_person_and_sees_the_end,
    test_an_approver_finds_the_release_at_home_clicks_and_sees_it_promoted,
)
from tests.patience import eventually
from tests.postgres import PostgresServer

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]
__all__ = [
    "test_a_pipeline_releases_waits_for_a_person_and_sees_the_end",
    "test_an_approver_finds_the_release_at_home_clicks_and_sees_it_promoted",
]


@pytest.fixture(scope="module")
def database_url() -> Iterator[str]:
    server = PostgresServer()
    yield server.url
    server.stop()


def test_killing_workers_with_9_at_every_step_changes_nothing_in_the_end(
    scene: Scene, traffic: Traffic
) -> None:
    version = "v1" if scene.admin.get(f"services/{SERVICE}/")["stable"] != f"{MODEL}:v1" else "v2"
    release = scene.release(version)
    killed: set[str] = set()

    def state() -> str:
        seen = scene.admin.get(f"releases/{release['id']}/")
        running = next((step["kind"] for step in seen["steps"] if step["state"] == "running"), "")
        if running and running not in killed:
            killed.add(running)
            for part in ("worker", "sweeper"):
                pid = scene.stack.supervisor.processes()[part].pid
                if pid is not None:
                    for process in [*psutil.Process(pid).children(recursive=True), psutil.Process(pid)]:
                        with suppress(psutil.NoSuchProcess):
                            process.kill()
        return str(seen["state"])

    eventually(lambda: state() in ("waiting_approval", "failed", "rolled_back", "stuck"), seconds=150)
    assert state() == "waiting_approval"
    scene.admin.post(f"releases/{release['id']}/approve/", {"reason": "still here"})
    eventually(lambda: state() in ("promoted", "failed", "rolled_back", "stuck"), seconds=150)
    assert state() == "promoted"
    assert {"hold", "approval"} <= killed
    assert traffic.failures == []
