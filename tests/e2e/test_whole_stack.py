"""The parts of a running stack: what each says of itself, and what becomes of one that is killed or hangs."""

import os
import signal
import stat
import urllib.error
import urllib.request
from typing import Any

import orjson
import psutil
import pytest
import redis
from pytest_django import Settings

from controlplane.embedded.parts import parts_status
from controlplane.readiness_key import HEADER, readiness_key
from tests.patience import eventually
from tests.stack.conftest import RunningStack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

PARTS = ("valkey", "gateway", "node-agent", "web", "worker", "sweeper")


def readiness(stack: RunningStack) -> dict[str, Any]:
    """The body of /readyz; empty while nobody answers."""
    try:
        key = readiness_key(stack.home.secret_key.read_text().strip())
        request = urllib.request.Request(f"http://127.0.0.1:{stack.port}/readyz", headers={HEADER: key})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return orjson.loads(answer.read())
    except urllib.error.HTTPError as error:
        return orjson.loads(error.read())
    except OSError:
        return {}


def test_every_part_tells_its_real_health(stack: RunningStack) -> None:
    report = readiness(stack)

    assert report["healthy"] is True
    assert set(report["parts"]) == {
        "database",
        "redis",
        "broker",
        "gateway",
        "worker",
        "sweeper",
        "store",
        "disk",
        "reconcilers",
        "hosts",
        "secrets",
        "backup",
        "clusters",
        "clock",
    }
    assert report["parts"]["gateway"]["detail"] == f"Envoy serves on 127.0.0.1 port {stack.gateway_port}."


def test_the_broker_keeps_its_tasks_and_listens_on_no_port(stack: RunningStack) -> None:
    valkey = redis.Redis(unix_socket_path=str(stack.home.valkey_socket))

    assert valkey.config_get("appendonly", "maxmemory-policy", "port") == {
        "appendonly": "yes",
        "maxmemory-policy": "noeviction",
        "port": "0",
    }
    assert stat.S_IMODE(stack.home.run.stat().st_mode) == 0o700


def test_the_secret_is_the_homes_own_and_nobody_elses_to_read(stack: RunningStack) -> None:
    assert stat.S_IMODE(stack.home.secret_key.stat().st_mode) == 0o600
    assert len(stack.home.secret_key.read_text()) >= 32


@pytest.mark.parametrize("name", PARTS)
def test_a_killed_part_is_restarted_and_counted(stack: RunningStack, name: str) -> None:
    before = stack.supervisor.processes()[name]
    assert before.pid is not None
    children = psutil.Process(before.pid).children(recursive=True)

    os.kill(before.pid, signal.SIGKILL)

    eventually(lambda: stack.supervisor.processes()[name].restarts == before.restarts + 1)
    eventually(lambda: readiness(stack).get("healthy") is True)
    after = stack.supervisor.processes()[name]
    assert after.last_exit == "terminated by SIGKILL"
    assert after.pid not in (None, before.pid)
    eventually(lambda: not [child for child in children if child.is_running()])


def test_a_part_that_is_away_is_told_and_the_others_go_on(stack: RunningStack) -> None:
    envoy = stack.supervisor.processes()["gateway"].pid
    assert envoy is not None
    os.kill(envoy, signal.SIGSTOP)
    try:
        assert readiness(stack)["parts"]["gateway"]["ok"] is True, "slow is not down"
        eventually(lambda: readiness(stack)["parts"]["gateway"]["ok"] is False)
        report = readiness(stack)
    finally:
        os.kill(envoy, signal.SIGCONT)

    assert report["healthy"] is False
    assert report["parts"]["gateway"]["ok"] is False
    assert report["ready"] is True
    eventually(lambda: readiness(stack)["healthy"] is True)


def test_when_all_that_take_due_work_hang_it_is_told_and_they_are_replaced(stack: RunningStack) -> None:
    def takers() -> list[psutil.Process]:
        parts = [stack.supervisor.processes()[name] for name in ("sweeper", "worker")]
        children = [child for part in parts for child in psutil.Process(part.pid).children(recursive=True)]
        # A job that has ended waits there for its parent's next one.
        return [child for child in children if child.status() != psutil.STATUS_ZOMBIE]

    # The sweeper, Celery's main process and its one.
    eventually(lambda: len(takers()) == 3 and readiness(stack).get("healthy"))
    watchdogs = [stack.supervisor.processes()[name] for name in ("sweeper", "worker")]
    hung = takers()
    for process in hung:
        process.suspend()

    eventually(lambda: not readiness(stack)["parts"]["reconcilers"]["ok"], every=0.2)
    eventually(lambda: not [process for process in hung if process.is_running()])
    eventually(lambda: readiness(stack).get("healthy") is True, every=0.2)
    # Nobody else had to do it.
    assert [stack.supervisor.processes()[one.name].pid for one in watchdogs] == [one.pid for one in watchdogs]


def test_the_parts_are_shown_with_state_and_restarts(stack: RunningStack, settings: Settings) -> None:
    settings.SLIPWAY_RUN_DIR = stack.home.run
    eventually(lambda: {part.state for part in parts_status().parts} == {"running"})

    report = parts_status()

    assert [part.name for part in report.parts] == list(PARTS)
    assert report.problem == ""
    for part in report.parts:
        assert part.pid is not None
        assert part.up_for is not None
        assert part.log.is_file()


def test_parts_without_a_supervisor_are_a_problem_in_words(settings: Settings, tmp_path: Any) -> None:
    settings.SLIPWAY_RUN_DIR = tmp_path

    report = parts_status()

    assert report.parts == ()
    assert "does not answer" in report.problem
