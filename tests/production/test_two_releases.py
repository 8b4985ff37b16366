"""An upgrade while everything goes on: processes of this release and of the next one over one database."""

import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from slipway.client import Client, at
from tests.e2e.conftest import Traffic, write_version
from tests.production.site import Host, Site, eventually

pytestmark = [pytest.mark.process, pytest.mark.any_database, pytest.mark.slow, pytest.mark.timeout(600)]
STEPS: list[dict[str, Any]] = [
    {"kind": "scan"},
    {"kind": "deploy", "share_percent": 100, "ready_within_seconds": 120},
    {"kind": "smoke_test", "requests": 1, "timeout_seconds": 60},
    {"kind": "promote"},
]
ANNOUNCED = [*STEPS[:3], {"kind": "announce"}, STEPS[3]]


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"))
    yield made
    made.close()


def signed_in(host: Host) -> httpx2.Client:
    browser = httpx2.Client(base_url=host.url, timeout=60, follow_redirects=True)
    page = browser.get("/accounts/login/")
    (token,) = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)[:1]
    password = (host.home / "admin-password").read_text().strip()
    form = {"login": "admin", "password": password, "csrfmiddlewaretoken": token}
    browser.post("/accounts/login/", data=form, headers={"Referer": f"{host.url}/accounts/login/"})
    return browser


def test_releases_end_and_no_request_is_lost_while_processes_are_replaced(site: Site):
    today = site.host()
    today.prepare()
    for role in ("gateway", "node"):
        today.start(role)
    sweeper = today.start("sweeper")
    web = today.web()
    admin = Client(today.url, today.token)
    admin.create(at("models"), {"name": "parrot", "task": "text-generation"})
    for number in (1, 2, 3):
        name = f"v{number}"
        source = write_version(today.home / "imports" / name, seed=number)
        admin.create(at("models", "parrot", "versions"), {"source": str(source), "version": name})
        version = at("models", "parrot", "versions", name)
        eventually(lambda version=version: admin.get(version)["state"] == "ready")
    wish = {"name": "talk", "model": "parrot", "version": "v1", "engine": "echo", "replicas": 1}
    admin.create(at("services"), wish)
    eventually(lambda: admin.get(at("services", "talk"))["stable"] == "parrot:v1")
    traffic = Traffic(f"http://127.0.0.1:{today.gateway_port}/talk", per_second=5)
    traffic.start()

    # The database first, under the processes of today; then a web.
    later = today.twin(
        DJANGO_SETTINGS_MODULE="tests.production.next_release.settings",
        SLIPWAY_GATEWAY_PORT=str(today.gateway_port),
        SLIPWAY_GATEWAY_ADMIN_PORT=str(today.admin_port),
    )
    refused = later.run("sweeper")
    assert (refused.returncode, "releases 0002_urgency" in refused.stderr) == (2, True)
    later.prepare()
    later.web()
    next_admin = Client(later.url, today.token)
    next_admin.create(at("plans"), {"name": "announced", "body": {"steps": ANNOUNCED}})
    release = next_admin.create(
        at("releases"),
        {"service": "talk", "version": "v2", "plan": "announced", "reason": "new", "bypass": "a test"},
    )
    address = at("releases", release["id"])
    # The sweeper of today takes what it knows, and leaves the rest alone.
    eventually(lambda: running_step(admin.get(address)) == "announce", seconds=180)
    eventually(lambda: "is of a newer release" in sweeper.log)
    assert admin.get(address)["state"] == "running"
    browser = signed_in(today)
    pages = (
        "/",
        "/releases/",
        f"/releases/{release['id']}/",
        "/services/talk/",
        "/settings/plans/",
        "/settings/plans/default/announced/",
    )
    answered = {path: browser.get(path).status_code for path in pages}
    assert set(answered.values()) == {200}, answered
    later.start("sweeper")
    eventually(lambda: admin.get(address)["state"] == "promoted", seconds=180)

    # The other way round: a web of today, started anew beside the newer database, and what takes rows is new.
    sweeper.stop()
    web.stop()
    web = today.web()
    admin.create(at("plans"), {"name": "plain", "body": {"steps": STEPS}})
    release = admin.create(
        at("releases"),
        {"service": "talk", "version": "v3", "plan": "plain", "reason": "newer", "bypass": "a test"},
    )
    eventually(lambda: admin.get(at("releases", release["id"]))["state"] == "promoted", seconds=180)
    traffic.answers.clear()
    eventually(lambda: traffic.answers["parrot:v3"] > 3)
    traffic.stop()
    assert traffic.failures == []
    assert "Traceback" not in web.log


def running_step(release: dict[str, Any]) -> str:
    """The kind of the step that it is at; empty: at none."""
    return next((step["kind"] for step in release["steps"] if step["state"] == "running"), "")
