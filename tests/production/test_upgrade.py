"""An installation of the last release, with its data, becomes one of this code."""

from pathlib import Path

import pytest

from slipway.client import Client, at
from tests.e2e.conftest import write_version
from tests.production.site import Site, eventually
from tests.production.test_two_releases import signed_in
from tests.releases_of_git import code_of_release

pytestmark = [pytest.mark.process, pytest.mark.any_database, pytest.mark.slow, pytest.mark.timeout(600)]
STEPS = [
    {"kind": "scan"},
    {"kind": "deploy", "share_percent": 100, "ready_within_seconds": 120},
    {"kind": "weight", "percent": 20},
    {"kind": "approval", "timeout_seconds": 3_600, "separate_requester": False},
    {"kind": "promote"},
]


def test_a_release_that_waits_for_approval_is_promoted_by_the_next_version_of_slipway(tmp_path: Path) -> None:
    released = code_of_release(tmp_path / "released")
    if not released:
        pytest.skip("No release is tagged in this clone: git fetch --tags")
    site = Site(tmp_path / "site")
    try:
        site.postgres.empty()
        before = site.host(code=tmp_path / "released")
        before.prepare()
        for role in ("gateway", "node"):
            before.start(role)
        roles = [before.start("sweeper"), before.web()]
        admin = Client(before.url, before.token)
        admin.create(at("models"), {"name": "parrot", "task": "text-generation"})
        for name in ("v1", "v2"):
            source = write_version(before.home / "imports" / name, seed=len(name))
            admin.create(at("models", "parrot", "versions"), {"source": str(source), "version": name})
            version = at("models", "parrot", "versions", name)
            eventually(lambda version=version: admin.get(version)["state"] == "ready")
        service = {"name": "talk", "model": "parrot", "version": "v1", "engine": "echo", "replicas": 1}
        admin.create(at("services"), service)
        eventually(lambda: admin.get(at("services", "talk"))["stable"] == "parrot:v1")
        admin.create(at("plans"), {"name": "asks", "body": {"steps": STEPS}})
        wish = {"service": "talk", "version": "v2", "plan": "asks", "reason": "new", "bypass": "a test"}
        started = admin.create(at("releases"), wish)
        release = at("releases", started["id"])
        eventually(lambda: admin.get(release)["state"] == "waiting_approval")
        for role in roles:
            role.stop()

        after = before.twin(
            SLIPWAY_GATEWAY_PORT=str(before.gateway_port), SLIPWAY_GATEWAY_ADMIN_PORT=str(before.admin_port)
        )
        after.prepare()
        after.start("sweeper")
        after.web()
        admin = Client(after.url, after.token)
        assert admin.get(release)["state"] == "waiting_approval"
        admin.post(at("releases", started["id"], "approve"), {"reason": "Fine."})
        eventually(lambda: admin.get(release)["state"] == "promoted")
        browser = signed_in(after)
        pages = ("/", "/releases/", "/services/talk/", "/models/parrot/", "/fleet/", "/audit/")
        assert {path: browser.get(path).status_code for path in pages} == dict.fromkeys(pages, 200)
        done = after.run("manage", "verify_audit")
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        site.close()
