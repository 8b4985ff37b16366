"""Two versions answer side by side in a browser, while they write."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from perf.upstream import Upstream
from tests.console.conftest import Tab
from tests.console.server import ConsoleServer

pytestmark = pytest.mark.browser
SERVED = """
import sys
from pathlib import Path
from django.conf import settings
from django.utils import timezone
from clusters.models import Deployment, Worker
from releases.models import Release, Service
from tests.accounts.rights_matrix import Scene
Path(settings.SLIPWAY_IMPORT_ROOTS[0]).mkdir(exist_ok=True)
scene = Scene.of_superuser()
release = scene.release
version = release.version
row = Deployment.objects.create(
    name="chat-1", cluster=scene.cluster, team=scene.team, service=scene.service.name, version=version,
    version_label=str(version), engine="echo", replicas=1, slots=1,
)
Worker.objects.create(
    deployment=row, uid="chat-1-0", name="chat-1-0", state="ready", state_since=timezone.now(),
    address="127.0.0.1", port=int(sys.argv[1]),
)
Service.objects.filter(pk=scene.service.pk).update(
    stable_version=version, stable_deployment=row.name, engine="echo"
)
Release.objects.filter(pk=release.pk).update(candidate_deployment=row.name)
print(scene.service.name)
"""


@pytest.fixture
def service(server: ConsoleServer) -> Iterator[str]:
    upstream = Upstream("hello")
    try:
        yield server.run(SERVED, str(upstream.port)).strip()
    finally:
        upstream.kill()


def test_both_sides_stream_into_the_page_until_they_are_stopped(tab: Tab, service: str) -> None:
    tab.open(f"/services/{service}/playground/")
    stable, candidate = (tab.page.locator(f"[data-side={side}]") for side in ("stable", "candidate"))

    tab.page.get_by_role("textbox", name="Message").fill("Hello")
    tab.page.get_by_role("button", name="Send").click()
    for side in (stable, candidate):
        expect(side.locator(".talk-asked")).to_have_text("Hello")
        expect(side.locator(".talk-answer")).to_have_text("a" * 40)
        expect(side.locator(".talk-figures")).to_contain_text("40 tokens")

    tab.page.get_by_role("textbox", name="Message").fill("Again")
    tab.page.keyboard.press("Control+Enter")
    expect(stable.locator(".talk-answer").nth(1)).to_contain_text("aaa")
    tab.page.get_by_role("button", name="Stop").click()
    expect(stable.locator(".talk-figures").nth(1)).to_have_text("Stopped")
    expect(stable.locator(".talk-answer").nth(1)).not_to_have_text("a" * 40)
    assert tab.complaints == []
    assert tab.sizes()[0] == tab.sizes()[1]
