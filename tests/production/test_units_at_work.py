"""The units of deploy/host, started, restarted, killed and stopped by a real systemd."""

import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from slipway.client import Client, at
from tests.e2e.conftest import Traffic, write_version
from tests.postgres import INSTALLED
from tests.production.site import Site, eventually, free_port
from tests.production.systemd import HOME, LACKING, SystemdMachine

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(LACKING), reason=f"needs {LACKING}"),
]
SERVING = {
    "name": "talk",
    "model": "parrot",
    "version": "v1",
    "engine": "echo",
    "replicas": 1,
    "plan": "direct",
}


class Units:
    """An installation by its units, with a service that answers."""

    def __init__(self, site: Site, place: Path) -> None:
        self.port, self.gateway_port, admin_port = free_port(), free_port(), free_port()
        self.roles = [
            f"slipway-web@{self.port}",
            "slipway-worker",
            "slipway-sweeper",
            "slipway-gateway",
            "slipway-node",
        ]
        settings = {name: text for name, text in site.settings.items() if name.startswith("SLIPWAY_")}
        ports = {
            "SLIPWAY_GATEWAY_PORT": str(self.gateway_port),
            "SLIPWAY_GATEWAY_ADMIN_PORT": str(admin_port),
        }
        report = {"SLIPWAY_REPORT_URL": f"http://127.0.0.1:{self.port}"}
        self.machine = SystemdMachine(place, {**settings, **ports, **report, "SLIPWAY_HOME": HOME})

    def begin(self) -> None:
        self.machine.do("start", "slipway-prepare")
        self.machine.do("start", *self.roles)
        eventually(self.answers)
        token = self.machine.inside(f"{HOME}/admin-token").read_text().strip()
        self.admin = Client(f"http://127.0.0.1:{self.port}", token)
        self.serve()

    def answers(self) -> bool:
        try:
            return httpx2.get(f"http://127.0.0.1:{self.port}/healthz", timeout=5).status_code == 200
        except httpx2.TransportError:
            return False

    def serve(self) -> None:
        self.admin.create(at("models"), {"name": "parrot", "task": "text-generation"})
        write_version(self.machine.inside(f"{HOME}/imports/v1"), seed=1)
        self.machine.run("chown", "-R", "slipway:", f"{HOME}/imports")
        source = {"source": f"{HOME}/imports/v1", "version": "v1"}
        self.admin.create(at("models", "parrot", "versions"), source)
        eventually(lambda: self.admin.get(at("models", "parrot", "versions", "v1"))["state"] == "ready")
        self.admin.create(at("services"), SERVING)
        eventually(lambda: self.completion() == 200)

    def completion(self) -> int:
        """Status of a client's request."""
        url = f"http://127.0.0.1:{self.gateway_port}/talk/v1/completions"
        body = {"model": "parrot", "prompt": "hello", "max_tokens": 4}
        try:
            return httpx2.post(url, json=body, timeout=20).status_code
        except httpx2.TransportError:
            return 0

    def states(self) -> dict[str, str]:
        return {unit: self.machine.properties(unit, "ActiveState")[0] for unit in self.roles}


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Units]:
    place = tmp_path_factory.mktemp("units")
    site = Site(place, programs=INSTALLED[-1] if INSTALLED else None, SLIPWAY_DATABASE_CONNECTIONS="12")
    made = Units(site, place / "machine")
    try:
        made.begin()
        yield made
    finally:
        made.machine.stop()
        site.close()


def test_every_role_is_active_under_its_bounds_as_a_user_without_rights(units: Units):
    assert set(units.states().values()) == {"active"}
    for unit in units.roles:
        user, bounded, restarts = units.machine.properties(unit, "User", "ProtectSystem", "NRestarts")
        assert (user, bounded, restarts) == ("slipway", "strict", "0"), units.machine.journal([unit])
    parts = httpx2.get(f"http://127.0.0.1:{units.port}/readyz", timeout=60)
    assert parts.status_code == 200, parts.text


def test_restarts_of_gateway_and_node_refuse_no_client_and_keep_the_workers(units: Units):
    kept = {unit: units.machine.processes(unit) for unit in ("slipway-gateway", "slipway-node")}
    mains = {unit: int(units.machine.properties(unit, "MainPID")[0]) for unit in kept}
    traffic = Traffic(f"http://127.0.0.1:{units.gateway_port}/talk", model="parrot")
    traffic.start()
    eventually(lambda: traffic.answers)
    units.machine.do("restart", *kept)
    eventually(lambda: set(units.states().values()) == {"active"})
    time.sleep(3)
    traffic.stop()
    assert not traffic.failures, traffic.failures[:3]
    for unit, before in kept.items():
        now = units.machine.processes(unit)
        assert mains[unit] not in now
        # Envoy, and the model worker: whatever the main process was not.
        assert now & before, units.machine.journal([unit])


def test_a_role_that_is_killed_comes_back(units: Units):
    ready = units.machine.journal(["slipway-node"]).count("The node is ready.")
    for unit in units.roles:
        units.machine.do("kill", "--kill-whom=main", "-s", "SIGKILL", unit)
    for unit in units.roles:
        eventually(lambda unit=unit: units.machine.properties(unit, "NRestarts") == ["1"])
    units.machine.says("slipway-node", "The node is ready.", times=ready + 1)
    eventually(units.answers)
    assert set(units.states().values()) == {"active"}
    assert [units.machine.properties(unit, "NRestarts") for unit in units.roles] == [["1"]] * 5
    assert units.completion() == 200


@pytest.mark.skipif(not INSTALLED, reason="there is no PostgreSQL of a distribution here")
def test_the_nightly_backup_is_made_by_its_unit(units: Units):
    units.machine.do("enable", "--now", "slipway-backup.timer")
    assert units.machine.properties("slipway-backup.timer", "ActiveState", "NextElapseUSecRealtime")[1]
    units.machine.do("start", "slipway-backup")
    assert len(list(units.machine.inside("/backups/slipway/backups").iterdir())) == 1
