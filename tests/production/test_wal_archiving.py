"""WAL archiving as docs/PRODUCTION.md has it: the database goes back to a moment of choice."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.client import Client, at
from tests.postgres import INSTALLED
from tests.production.database_server import DatabaseServer
from tests.production.page import blocks
from tests.production.site import Host, eventually
from tests.production.test_failover import ask

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not INSTALLED, reason="there is no PostgreSQL of a distribution here"),
]


@pytest.fixture
def server() -> Iterator[DatabaseServer]:
    made = DatabaseServer()
    yield made
    made.stop()


@pytest.fixture
def host(server: DatabaseServer, tmp_path: Path) -> Iterator[Host]:
    site = server.site(tmp_path)
    host = site.host()
    host.prepare()
    yield host
    site.close()


def test_the_page_s_commands_bring_back_the_moment_before_a_mistake(server: DatabaseServer, host: Host):
    archive, restore = (block.text for block in blocks("Backup") if "/backups/wal" in block.text)
    web = host.web()
    assert ask(host, "before-the-base") == 201
    server.sh(archive)
    eventually(lambda: ask(host, "after-the-base") == 201)
    moment = str(server.sql("SELECT clock_timestamp()"))
    time.sleep(0.1)
    assert ask(host, "mistaken") == 201
    server.sql("DROP TABLE models_registry_alias CASCADE")
    # What `archive_timeout` does a minute later.
    last = server.sql("SELECT pg_walfile_name(pg_switch_wal())")
    eventually(lambda: (server.root / "backups/wal" / last).exists(), seconds=60)
    web.stop()

    began = time.monotonic()
    server.sh(re.sub(r"(?<=recovery_target_time = ')[^']+", moment, restore))
    took = time.monotonic() - began
    assert server.sql("SELECT pg_is_in_recovery()") is False
    verified = host.run("manage", "verify_audit")
    assert verified.returncode in (0, 2), verified.stdout + verified.stderr
    host.web()
    admin = Client(host.url, host.token)
    assert {model["name"] for model in admin.get(at("models"))["results"]} == {
        "before-the-base",
        "after-the-base",
    }
    assert ask(host, "after-the-restore") == 201
    print(f"\nback after {took:.1f} s")
