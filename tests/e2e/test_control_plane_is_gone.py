"""The control plane dies, stays away and is replaced, in the middle of a release: clients notice nothing."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from controlplane.embedded import running
from slipway.client import at
from tests.e2e.conftest import MODEL, Scene, Traffic, running_scene
from tests.patience import eventually
from tests.postgres import database_of_its_own

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(600)]

AWAY_SECONDS = 30
"""Longer than any lease, any health check and the time after which a worker counts as lost."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with running_scene(tmp_path_factory.mktemp("e2e") / "home", database_url=database_of_its_own()) as scene:
        yield scene


def serving(scene: Scene) -> dict[str, int]:
    """Return the programs that answer model requests: all but the agent, which only reports."""
    return {name: pid for name, pid in scene.stack.pids().items() if name != "node-agent"}


def test_a_release_goes_on_after_the_control_plane_was_gone_and_after_it_was_replaced(
    scene: Scene, traffic: Traffic
) -> None:
    stack = scene.stack
    release = scene.release("v2")
    scene.wait_for(release, "waiting_approval")
    before = serving(scene)
    assert len(before) == 5  # the gateway, two workers of each version
    supervisords = [plane.conf for plane in (stack.home.data, stack.home.control)]
    doomed = [stack.process.pid, *(one.pid for conf in supervisords for one in running.supervisords(conf))]
    for pid in doomed:
        os.kill(pid, signal.SIGKILL)
    stack.process.wait()
    time.sleep(AWAY_SECONDS)
    assert serving(scene) == before

    stack.process = stack.launch()
    stack.wait_until_ready(seconds=180)
    assert scene.wait_for(release, "waiting_approval")["weights"]["desired"]["candidate"] == 30
    first, stack.process = stack.process, stack.launch("--replace")
    assert first.wait(60) == 0
    stack.wait_until_ready(seconds=180)

    assert serving(scene) == before
    scene.admin.post(at("releases", release["id"], "approve"), {"reason": "it is still here"})
    scene.wait_for(release, "promoted")
    assert scene.ask().headers["x-slipway-version"] == f"{MODEL}:v2"
    eventually(lambda: len(serving(scene)) == 3)
    assert set(serving(scene).items()) < set(before.items())
    assert traffic.failures == []
