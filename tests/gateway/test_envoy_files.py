"""What happens to Envoy's files when writers die, meet, or are wrong."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.backends import checks
from gateway.backends.envoy import access_log, bootstrap, files, proof, routes
from gateway.backends.envoy.backend import EnvoyFiles
from gateway.backends.envoy.bootstrap import write_bootstrap
from gateway.errors import (
    GatewayBusy,
    GatewayError,
    GatewayUnreachable,
    InvalidEndpoint,
    InvalidRoute,
    StaleFence,
)
from gateway.routes import Endpoint, Fence, RouteSpec, Target
from perf.envoy_stack import CANARY, STABLE, EnvoyStack
from perf.upstream import Upstream
from tests.patience import eventually

OPEN = partial(RouteSpec, "chat", release_header="open")
THIRD = Target("chat-3", "chatty:3")


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


def unserved(stack: EnvoyStack) -> dict[str, object]:
    """The sides that do not answer well, with what they answered."""
    answers = {
        side: stack.get("/chat/v1", **({"x_release": side} if side else {}))
        for side in ("stable", "canary", "")
    }
    return {side: answer for side, answer in answers.items() if answer.status != 200}


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
        with pytest.raises(StaleFence):
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
        eventually(lambda: stack.gateway.ready(STABLE.name) == {Endpoint("127.0.0.1", spare.port)})
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


def endpoint_of(stack: EnvoyStack, target: Target) -> Endpoint:
    return Endpoint("127.0.0.1", stack.workers[target.name][0].port)


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
    with pytest.raises(StaleFence):
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
        stack.gateway.set_target(STABLE.name, [Endpoint("a.name", 80)], observed_at=datetime.now(UTC))
    assert stack.gateway.ready(STABLE.name) == {endpoint_of(stack, STABLE)}
    assert not unserved(stack)


@pytest.mark.stack
def test_writers_of_many_routes_do_not_lose_each_others_work(stack: EnvoyStack) -> None:
    names = [f"service-{number}" for number in range(8)]
    targets = {name: (Target(f"{name}-a", "a:1"), Target(f"{name}-b", "b:1")) for name in names}
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
