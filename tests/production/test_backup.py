"""A site at work is backed up, lost altogether, and restored on an empty machine."""

import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from slipway.client import Client, at
from tests.e2e.conftest import write_version
from tests.marked import living
from tests.production.site import Host, Site, eventually

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(900)]
SERVING = {"name": "talk", "model": "parrot", "version": "v1", "engine": "echo", "replicas": 1}
SEALED = """
from accounts.models import WebhookEndpoint
from accounts.services.webhooks import PURPOSE
from common.sealed import unseal
print(unseal(WebhookEndpoint.objects.get().sealed_secret, purpose=PURPOSE))
"""


class Lived:
    """A site with a version that is served, and what is known of it outside."""

    def __init__(self, site: Site, directory: Path) -> None:
        self.site = site
        self.directory = directory
        self.keys = directory.parent / "keys.env"
        self.host = site.host("first")
        self.host.prepare()
        self.work(self.host)
        self.token = self.host.token
        self.admin = Client(self.host.url, self.token)
        self.admin.create(at("models"), {"name": "parrot", "task": "text-generation"})
        source = write_version(self.host.home / "imports" / "v1", seed=1)
        self.admin.create(at("models", "parrot", "versions"), {"source": str(source), "version": "v1"})
        version = at("models", "parrot", "versions", "v1")
        eventually(lambda: self.admin.get(version)["state"] == "ready")
        self.digest = self.admin.get(version)["digest"]
        self.admin.create(at("services"), SERVING)
        eventually(lambda: self.answer(self.host) == "parrot:v1")
        hook = self.admin.create(at("webhooks"), {"url": "https://example.com/", "events": ["audit.head"]})
        self.secret = hook["secret"]

    @staticmethod
    def work(host: Host) -> None:
        for role in ("gateway", "node", "sweeper"):
            host.start(role)
        host.web()

    @staticmethod
    def answer(host: Host) -> str:
        """The version that answered; empty: none did."""
        body = {"model": "parrot", "prompt": "hello", "max_tokens": 4}
        try:
            told = httpx2.post(
                f"http://127.0.0.1:{host.gateway_port}/talk/v1/completions", json=body, timeout=20
            )
        except httpx2.TransportError:
            return ""
        return told.headers.get("x-slipway-version", "") if told.status_code == 200 else ""

    def backup(self, *options: str) -> str:
        """Take a backup; return the command's output."""
        done = self.host.run("backup", str(self.directory), *options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def lose(self) -> None:
        """All of it, at once."""
        for role in self.site.roles:
            role.stop(signal.SIGKILL)
        for process in living(self.site.mark):
            process.kill()
        self.site.valkey.empty()
        if self.site.postgres is not None:
            self.site.postgres.empty()
        shutil.rmtree(self.host.home)


@pytest.fixture(scope="module", params=["postgresql", "sqlite"])
def lived(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    home = tmp_path_factory.mktemp("site")
    site = Site(home, on_sqlite=request.param == "sqlite")
    try:
        yield Lived(site, home / "backups")
    finally:
        site.close()


def test_what_was_lost_is_an_installation_again(lived: Lived):
    first = lived.backup()
    assert "2 files" in first
    assert "new: 2" in first
    # The next one copies no file again.
    assert "new: 0" in lived.backup("--keys", str(lived.keys))
    assert lived.answer(lived.host) == "parrot:v1"
    lived.lose()

    host = lived.site.host("second")
    restored = host.run("restore", str(lived.directory))
    assert restored.returncode == 0, restored.stderr
    again = host.run("restore", str(lived.directory))
    assert (again.returncode, "not empty" in again.stderr) == (1, True)
    replaced = host.run("restore", str(lived.directory), "--replace")
    assert replaced.returncode == 0, replaced.stderr
    host.prepare()
    Lived.work(host)
    eventually(lambda: Lived.answer(host) == "parrot:v1")
    at_work = host.run("restore", str(lived.directory), "--replace")
    assert at_work.returncode == 1
    assert re.search("other connections|already running", at_work.stderr)
    admin = Client(host.url, lived.token)
    assert admin.get(at("models", "parrot", "versions", "v1"))["digest"] == lived.digest
    verdict = admin.get(at("audit", "verify"))
    assert verdict["intact"], verdict
    assert host.run("manage", "shell", "-v", "0", "-c", SEALED).stdout.strip() == lived.secret
    assert "1 sealed anew" in changed_key(host).run("reseal").stdout


def changed_key(host: Host) -> Host:
    former = host.environment["SLIPWAY_SECRET_KEY"]
    new = {"SLIPWAY_SECRET_KEY": "n" * 40, "SLIPWAY_SECRET_KEY_FALLBACKS": former}
    return host.twin(**new)
