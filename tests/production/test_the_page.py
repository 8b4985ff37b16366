"""docs/PRODUCTION.md, followed from an empty machine to a model that answers, a backup, and a restore."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import write_version
from tests.postgres import PostgresServer
from tests.production.page import Machine, blocks, roles
from tests.production.site import eventually
from tests.valkey import ValkeyServer

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(2_400)]
PATIENCE_SECONDS = 180
SERVING = {"name": "talk", "model": "parrot", "version": "v1", "engine": "echo", "replicas": 1}


class Site:
    """A machine, and the PostgreSQL and the Redis of the site."""

    def __init__(self, root: Path) -> None:
        self.postgres, self.valkey = PostgresServer(), ValkeyServer()
        self.valkey.start()
        self.machine = Machine(
            root,
            database_url=self.postgres.url,
            redis_url=self.valkey.url,
            programs=str(self.postgres.programs),
        )

    def close(self) -> None:
        self.machine.stop(at_once=True)
        self.valkey.remove()
        self.postgres.stop()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path)
    try:
        yield found
    finally:
        found.close()


def start(machine: Machine) -> None:
    """Each role says by `slipway-server health` that it works."""
    for role in roles():
        machine.start(role)
    for role in roles():
        eventually(lambda role=role: is_well(machine, role), seconds=PATIENCE_SECONDS)


def is_well(machine: Machine, role: str) -> bool:
    assert machine.units[role].poll() is None, machine.logs()
    try:
        machine.sh(f"slipway-server health {role}")
    except AssertionError:
        return False
    return True


def test_the_page_leads_from_an_empty_machine_to_a_model_that_answers_and_back_from_a_backup(place: Site):
    machine = place.machine
    commands, settings = blocks("Install")
    machine.sh(commands.text)
    machine.write_settings(settings.text)
    machine.sh("slipway-server prepare")
    start(machine)
    token = (machine.home / "admin-token").read_text().strip()
    with machine.through_the_proxy(token) as admin:
        source = write_version(machine.home / "imports/v1", seed=1)
        for path, body in (
            ("models/", {"name": "parrot", "task": "text-generation"}),
            ("models/parrot/versions/", {"source": str(source), "version": "v1"}),
        ):
            answer = admin.post(path, json=body)
            assert answer.status_code in (201, 202), answer.text
        version = "models/parrot/versions/v1/"
        eventually(lambda: admin.get(version).json()["state"] == "ready", seconds=PATIENCE_SECONDS)
        digest = admin.get(version).json()["digest"]
        answer = admin.post("services/", json=SERVING)
        assert answer.status_code == 202, answer.text
    eventually(lambda: machine.served_by() == "parrot:v1", seconds=PATIENCE_SECONDS)

    backup, *_ = (block for block in blocks("Backup") if block.language == "sh")
    machine.sh(backup.text)
    machine.sh("slipway-server bundle /elsewhere/bundle.tar.gz")
    kept = dict(machine.settings())
    machine.lose()
    place.postgres.empty()
    place.valkey.empty()

    keys = dict(
        line.split("=", 1)
        for line in (machine.root / "elsewhere/slipway-keys.env").read_text().splitlines()
        if line.startswith("SLIPWAY_")
    )
    assert {name: kept[name] for name in ("SLIPWAY_SECRET_KEY", "SLIPWAY_AUDIT_KEY")}.items() <= keys.items()
    machine.write_settings(settings.text, **keys)
    machine.sh("slipway-server restore /backups/slipway")
    machine.sh("slipway-server prepare")
    start(machine)
    eventually(lambda: machine.served_by() == "parrot:v1", seconds=PATIENCE_SECONDS)
    with machine.through_the_proxy(token) as admin:
        assert admin.get(version).json()["digest"] == digest
        assert admin.get("audit/verify/").json()["intact"]
