"""A gateway with as many targets as its machine lets it watch goes on, and says what to do."""

from pathlib import Path

import pytest

from common.fence import Fence
from gateway.backends.envoy import watchers
from gateway.backends.envoy.backend import EnvoyFiles
from gateway.errors import InvalidRoute
from gateway.routes import RouteSpec, RouteTarget
from perf.envoy_stack import CANARY, STABLE, EnvoyStack

pytestmark = pytest.mark.stack


def test_one_target_more_than_envoy_can_watch_is_refused_before_envoy_hears_of_it(
    stack: EnvoyStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text("4\n")
    monkeypatch.setattr(watchers, "LIMIT", limit)
    gateway = EnvoyFiles(stack.layout)
    stack.run_workers(STABLE)
    gateway.set_route(RouteSpec("chat", STABLE, None, 0), fence=Fence(1, 1))
    gateway.set_route(RouteSpec("chat", STABLE, CANARY, 0), fence=Fence(1, 2))
    gateway.set_route(RouteSpec("talk", STABLE, RouteTarget("talk-2", "talky:2"), 0), fence=Fence(1, 1))

    with pytest.raises(InvalidRoute, match=r"4 targets, and Envoy can watch 3.*max_user_instances"):
        gateway.set_route(RouteSpec("more", RouteTarget("more-1", "more:1"), None, 0), fence=Fence(1, 1))

    assert "more-1" not in stack.layout.clusters.read_text()
    gateway.set_route(RouteSpec("more", STABLE, None, 0), fence=Fence(1, 1))  # one that is watched already
    gateway.refresh()
    assert gateway.health().ok


def test_a_system_without_the_limit_refuses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchers, "LIMIT", tmp_path / "absent")
    watchers.check_room("chat", 10_000)
