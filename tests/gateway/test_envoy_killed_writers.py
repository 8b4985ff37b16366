"""A writer of Envoy's files that is killed anywhere leaves a gateway that serves."""

import json
import signal
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from common.fence import Fence
from gateway.backends.envoy.backend import EnvoyFiles
from gateway.errors import (
    StaleRouteFence,
)
from gateway.routes import WorkerEndpoint
from perf.envoy_stack import CANARY, STABLE, EnvoyStack
from perf.upstream import Upstream
from tests.gateway.envoy_parts import OPEN, THIRD, endpoint_of, unserved
from tests.gateway.test_envoy_refused_files import resources
from tests.patience import eventually


def dies_at(stack: EnvoyStack, point: int, call: str, **data: Any) -> bool:
    """Whether the writer was killed at this point; False when it came to its end before."""
    layout = {
        key: str(value) if isinstance(value, Path) else value for key, value in asdict(stack.layout).items()
    }
    order = json.dumps({"layout": layout, "die_at": point, "call": call, "data": data})
    run = subprocess.run(
        [sys.executable, "-m", "tests.gateway.doomed_writer", order],
        capture_output=True,
        text=True,
        timeout=30,
    )
    if run.returncode == -signal.SIGKILL:
        return True
    assert run.returncode == 0, run.stderr
    return False


@pytest.mark.stack
def test_a_writer_killed_anywhere_in_a_weight_change_leaves_a_gateway_that_serves(stack: EnvoyStack) -> None:
    for target in (STABLE, CANARY):
        stack.run_workers(target)
    stack.release()
    point, percent, turn = 0, 0, 1
    while True:
        point, percent, turn = point + 1, 100 - percent, turn + 1
        wish = {"percent": percent, "fence": [1, turn]}
        was_killed = dies_at(stack, point, "reweigh", **wish)
        assert not unserved(stack)
        if not was_killed:
            break
        with pytest.raises(StaleRouteFence):
            stack.reweigh(50, fence=Fence(1, turn - 2))
        stack.reweigh(percent, fence=Fence(1, turn))
        assert stack.get("/chat/v1").version == (CANARY if percent else STABLE).version
    assert point == 5, "two renames: the state, then the routes"


@pytest.mark.stack
def test_what_a_killed_writer_had_written_down_is_finished_by_a_refresh(stack: EnvoyStack) -> None:
    for target in (STABLE, CANARY):
        stack.run_workers(target)
    stack.release()
    after_the_state_before_the_routes = 3
    assert dies_at(stack, after_the_state_before_the_routes, "reweigh", percent=100, fence=[1, 2])
    assert stack.get("/chat/v1").version == STABLE.version
    wished = stack.gateway.desired_route("chat")
    assert wished
    assert wished.candidate_percent == 100
    stack.gateway.refresh()
    assert stack.get("/chat/v1").version == CANARY.version


@pytest.mark.stack
def test_a_writer_killed_anywhere_in_a_route_change_leaves_a_gateway_that_serves(stack: EnvoyStack) -> None:
    for target in (STABLE, CANARY, THIRD):
        stack.run_workers(target)
    stack.release()
    point, turn = 0, 1
    while True:
        point, turn = point + 1, turn + 1
        wish = {"stable": list(asdict(CANARY).values()), "candidate": list(asdict(THIRD).values())}
        was_killed = dies_at(stack, point, "set_route", **wish, percent=100, fence=[1, turn])
        assert not unserved(stack)
        if not was_killed:
            break
        stack.gateway.set_route(OPEN(CANARY, THIRD, 100), fence=Fence(1, turn))
        assert stack.get("/chat/v1").version == THIRD.version
        # Back to where it was, with the third target's cluster gone, for the next death.
        stack.gateway.set_route(OPEN(STABLE, CANARY, 0), fence=Fence(1, turn))
        EnvoyFiles(stack.layout, clock=lambda: datetime.now(UTC) + timedelta(hours=1)).refresh()
        assert THIRD.name not in {cluster["name"] for cluster in resources(stack.layout.clusters)}
    assert point > 8, "state, clusters, state, routes"
    assert stack.gateway.health().ok


@pytest.mark.stack
def test_a_writer_killed_anywhere_in_an_endpoint_change_is_repaired_by_the_next(stack: EnvoyStack) -> None:
    for target in (STABLE, CANARY):
        stack.run_workers(target)
    stack.release()
    spare = Upstream(STABLE.version)
    try:
        point = 0
        while True:
            point += 1
            wish = {"target": STABLE.name, "endpoints": [["127.0.0.1", spare.port]]}
            was_killed = dies_at(
                stack, point, "set_target", **wish, observed_at=datetime.now(UTC).isoformat()
            )
            if not was_killed:
                break
            eventually(lambda: not unserved(stack))  # once Envoy has found the new endpoint well
            stack.tell_endpoints(STABLE)
            eventually(lambda: stack.gateway.ready(STABLE.name) == {endpoint_of(stack, STABLE)})
        assert point == 5
        eventually(lambda: stack.gateway.ready(STABLE.name) == {WorkerEndpoint("127.0.0.1", spare.port)})
        eventually(lambda: not unserved(stack))
    finally:
        spare.kill()


@pytest.mark.stack
def test_a_writer_killed_in_removing_a_route_can_be_followed_by_another(stack: EnvoyStack) -> None:
    for target in (STABLE, CANARY):
        stack.run_workers(target)
    stack.release()
    assert dies_at(stack, 3, "remove_route", fence=[1, 2])
    assert not unserved(stack)
    stack.gateway.remove_route("chat", fence=Fence(1, 2))
    assert stack.get("/chat/v1").status == 404
