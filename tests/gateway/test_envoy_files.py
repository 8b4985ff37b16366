"""Envoy's files when writers meet, or are wrong, and what it does beside serving."""

import json
import socket
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from common.fence import Fence
from gateway.backends.envoy import access_log, bootstrap, files
from gateway.backends.envoy.backend import EnvoyFiles
from gateway.backends.envoy.bootstrap import write_bootstrap
from gateway.errors import (
    GatewayBusy,
    GatewayError,
    GatewayUnreachable,
)
from gateway.routes import RouteSpec, RouteTarget
from perf.envoy_stack import CANARY, STABLE, EnvoyStack
from tests.gateway.test_envoy_refused_files import resources
from tests.patience import eventually


@pytest.mark.stack
def test_writers_of_many_routes_do_not_lose_each_others_work(stack: EnvoyStack) -> None:
    names = [f"service-{number}" for number in range(8)]
    targets = {name: (RouteTarget(f"{name}-a", "a:1"), RouteTarget(f"{name}-b", "b:1")) for name in names}
    failures: list[Exception] = []

    def write(name: str) -> None:
        gateway = EnvoyFiles(stack.layout)
        try:
            gateway.set_route(RouteSpec(name, *targets[name], 0), fence=Fence(1, 1))
            for turn in range(1, 6):
                gateway.set_route(RouteSpec(name, *targets[name], turn), fence=Fence(1, turn))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for name in names:
        assert stack.gateway.desired_route(name) == RouteSpec(name, *targets[name], 5)
    written = resources(stack.layout.routes)[0]["virtual_hosts"][0]["routes"]
    shares = [
        [one["weight"] for one in route["route"]["weighted_clusters"]["clusters"]]
        for route in written
        if "weighted_clusters" in route.get("route", {})
    ]
    assert shares == [[95, 5]] * 8
    assert stack.gateway.health().ok


@pytest.mark.stack
def test_another_homes_envoy_on_the_admin_port_is_not_taken_for_ours(
    stack: EnvoyStack, tmp_path: Path
) -> None:
    from dataclasses import replace

    stranger = EnvoyFiles(replace(stack.layout, run_dir=tmp_path / "other" / "envoy"))
    write_bootstrap(stranger.layout)
    assert "belongs to another home" in stranger.health().detail
    with pytest.raises(GatewayUnreachable, match="another home"):
        stranger.set_route(RouteSpec("chat", STABLE, None, 0), fence=Fence(0, 1))


@pytest.mark.stack
def test_a_port_that_was_taken_at_the_start_is_listened_on_when_it_is_free(tmp_path: Path) -> None:
    stack = EnvoyStack(tmp_path)
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", stack.layout.port))
        squatter.listen(1)
        try:
            with pytest.raises(AssertionError):
                stack.start(within_seconds=1)
            eventually(lambda: "does not answer" not in stack.gateway.health().detail)
            with pytest.raises(GatewayError, match=f"cannot listen on 127.0.0.1 port {stack.layout.port}"):
                stack.gateway.refresh()
            squatter.close()
            stack.gateway.refresh()
            assert stack.gateway.health().ok
            assert stack.get("/nobody").status == 404
        finally:
            stack.stop()


@pytest.mark.stack
def test_the_admin_endpoint_cannot_stop_the_gateway(stack: EnvoyStack) -> None:
    with stack.gateway._admin.connected() as connection, pytest.raises(GatewayUnreachable, match="403"):
        connection.post("/quitquitquit")
    assert stack.gateway.health().ok


@pytest.mark.stack
def test_the_access_log_is_rotated_without_losing_a_line(stack: EnvoyStack) -> None:
    log = stack.layout.access_log
    for number in range(5):
        stack.get(f"/nobody/{number}")
    eventually(lambda: log.read_text().count("\n") == 5)
    assert not access_log.rotate(stack.layout, stack.gateway._admin)
    assert access_log.rotate(stack.layout, stack.gateway._admin, larger_than_bytes=10)
    stack.get("/nobody/5")
    eventually(lambda: log.exists() and log.read_text().count("\n") == 1)
    older = log.with_name(f"{log.name}.1")
    paths = [json.loads(line)["path"] for line in (older.read_text() + log.read_text()).splitlines()]
    assert paths == [f"/nobody/{number}" for number in range(6)]


@pytest.mark.stack
def test_a_former_target_is_let_go_after_its_time(stack: EnvoyStack) -> None:
    for target in (STABLE, CANARY):
        stack.run_workers(target)
    stack.release()
    stack.gateway.set_route(RouteSpec("chat", CANARY, None, 0), fence=Fence(1, 2))
    stack.gateway.refresh()
    assert set(stack.metrics.counts("chat")) == {STABLE.name, CANARY.name}
    EnvoyFiles(stack.layout, clock=lambda: datetime.now(UTC) + timedelta(minutes=11)).refresh()
    assert set(stack.metrics.counts("chat")) == {CANARY.name}
    assert stack.gateway.ready(STABLE.name) == frozenset()
    EnvoyFiles(stack.layout, clock=lambda: datetime.now(UTC) + timedelta(days=2)).refresh()
    assert not stack.layout.endpoints(STABLE.name).parent.exists()
    assert stack.layout.endpoints(CANARY.name).exists()


def test_a_lock_that_stays_held_is_named_in_the_refusal(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with files.held(path):
        started = time.monotonic()
        with pytest.raises(GatewayBusy, match="lock"), files.held(path, within_seconds=0.1):
            pass
        assert time.monotonic() - started < 30
    with files.held(path, within_seconds=0.1):
        pass


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    files.replace_json(path, {"a": 1})
    with pytest.raises(TypeError):
        files.replace_json(path, {"a": object()})
    assert files.read_json(path) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(GatewayError, match="nowhere"):
        files.replace_json(tmp_path / "nowhere" / "file.json", {})
    (tmp_path / "file.json").mkdir()
    with pytest.raises(GatewayError, match="directory"):
        files.read_json(tmp_path / "file.json")


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 99}', '{"format": 1, "routes": 3}'])
def test_a_damaged_state_is_named_and_not_overwritten(tmp_path: Path, content: str) -> None:
    stack = EnvoyStack(tmp_path)
    stack.layout.run_dir.mkdir(parents=True)
    stack.layout.state.write_text(content)
    with pytest.raises(GatewayError):
        write_bootstrap(stack.layout)
    with pytest.raises(GatewayError):
        stack.gateway.desired_route("chat")
    assert stack.layout.state.read_text() == content


def test_the_command_line_refuses_unknown_fields(tmp_path: Path) -> None:
    command = bootstrap.command(EnvoyStack(tmp_path).layout)
    assert "--reject-unknown-dynamic-fields" in command
    assert "--disable-hot-restart" in command


def test_an_envoy_that_runs_on_keeps_its_files_and_gets_a_bootstrap_for_its_next_start(
    stack: EnvoyStack,
) -> None:
    files_of = {path: path.read_bytes() for path in stack.layout.run_dir.rglob("*.json")}
    older = json.loads(stack.layout.bootstrap.read_bytes()) | {"stats_flush_interval": "5s"}
    stack.layout.bootstrap.write_text(json.dumps(older))

    assert bootstrap.renew_bootstrap(stack.layout) is True

    assert {path: path.read_bytes() for path in stack.layout.run_dir.rglob("*.json")} == files_of


@pytest.mark.parametrize("change", [{"port": 1024}, {"admin_port": 1024}, {"bind": "127.0.0.2"}])
def test_an_envoy_that_is_to_listen_elsewhere_cannot_run_on(
    stack: EnvoyStack, change: dict[str, Any]
) -> None:
    before = stack.layout.bootstrap.read_bytes()

    assert bootstrap.renew_bootstrap(replace(stack.layout, **change)) is False

    assert stack.layout.bootstrap.read_bytes() == before
