"""Files that Envoy would refuse, or refuses, do not stay."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from common.fence import Fence
from gateway.backends import checks
from gateway.backends.envoy import proof, routes
from gateway.errors import (
    InvalidEndpoint,
    InvalidRoute,
    StaleRouteFence,
)
from gateway.routes import WorkerEndpoint
from perf.envoy_stack import CANARY, STABLE, EnvoyStack
from tests.gateway.envoy_parts import OPEN, THIRD, endpoint_of, unserved
from tests.patience import eventually


def resources(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["resources"]
    return found


@pytest.mark.stack
@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"timeoutt": "0s"}, "no such field"),
        ({"cluster": "nowhere", "weighted_clusters": None}, "unknown cluster"),
    ],
)
def test_a_configuration_that_envoy_would_refuse_never_lands(
    stack: EnvoyStack, monkeypatch: pytest.MonkeyPatch, broken: dict[str, Any], reason: str
) -> None:
    for target in (STABLE, CANARY):
        stack.run_workers(target)
    stack.release()
    before = {path: path.read_bytes() for path in (stack.layout.routes, stack.layout.state)}
    misrender(monkeypatch, broken)
    with pytest.raises(InvalidRoute, match=reason):
        stack.gateway.set_route(OPEN(STABLE, THIRD, 50), fence=Fence(1, 2))
    assert {path: path.read_bytes() for path in before} == before
    assert not unserved(stack)


@pytest.mark.stack
@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"timeoutt": "0s"}, "no such field"),
        ({"cluster": "nowhere", "weighted_clusters": None}, "unknown cluster"),
    ],
)
def test_a_configuration_that_the_running_envoy_refuses_is_taken_back(
    stack: EnvoyStack, monkeypatch: pytest.MonkeyPatch, broken: dict[str, Any], reason: str
) -> None:
    for target in (STABLE, CANARY):
        stack.run_workers(target)
    stack.release(100)
    with monkeypatch.context() as patched:
        misrender(patched, broken, times=1)
        # A weight change is not proven beforehand: only its numbers differ from what was.
        with pytest.raises(InvalidRoute):
            stack.reweigh(0, fence=Fence(1, 2))
    assert stack.get("/chat/v1").version == CANARY.version
    assert stack.gateway.desired_route("chat") == OPEN(STABLE, CANARY, 100)
    eventually(lambda: stack.gateway.health().ok)
    with pytest.raises(StaleRouteFence):
        stack.reweigh(10, fence=Fence(1, 1))
    stack.reweigh(0, fence=Fence(1, 3))
    assert stack.get("/chat/v1").version == STABLE.version
    misrender(monkeypatch, broken)
    with pytest.raises(InvalidRoute, match=reason):
        proof.prove(stack.gateway._store.load(), stack.layout)


def misrender(monkeypatch: pytest.MonkeyPatch, broken: dict[str, Any], times: int = 1000) -> None:
    """Have the next renderings of every service's route carry this fault."""
    right = routes.render_routes
    left = times

    def wrong(state: Any) -> Any:
        nonlocal left
        rendered = right(state)
        left -= 1
        if left < 0:
            return rendered
        for route in rendered["virtual_hosts"][0]["routes"]:
            if "route" in route:
                action = {**route["route"], **broken}
                route["route"] = {key: value for key, value in action.items() if value is not None}
        return rendered

    monkeypatch.setattr(routes, "render_routes", wrong)
    monkeypatch.setattr(proof, "render_routes", wrong)


@pytest.mark.stack
def test_endpoints_that_the_running_envoy_refuses_are_taken_back(
    stack: EnvoyStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    for target in (STABLE, CANARY):
        stack.run_workers(target)
    stack.release()
    monkeypatch.setattr(checks, "check_place", lambda _target, endpoints, **_: tuple(endpoints))
    with pytest.raises(InvalidEndpoint):
        stack.gateway.set_target(STABLE.name, [WorkerEndpoint("a.name", 80)], observed_at=datetime.now(UTC))
    assert stack.gateway.ready(STABLE.name) == {endpoint_of(stack, STABLE)}
    assert not unserved(stack)
