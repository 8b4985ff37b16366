"""`bin/up --sample --kubernetes`, as whoever tries it out plays it: in a terminal and in a browser."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psutil
import pytest
from playwright.sync_api import expect

from slipway.client import Client, Document, at
from tests.browser import chromium
from tests.patience import eventually
from tests.prepared import prepare_home
from tests.stack.conftest import RunningStack

pytestmark = [pytest.mark.stack, pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(1_800)]

SERVICE, V1, V2 = "docs-sample", "docstring-writer:v1", "docstring-writer:v2"


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[RunningStack]:
    """A stack whose sample has come as far as it comes without a person."""
    home = tmp_path / "home"
    prepare_home(home)
    stack = RunningStack(home, "controlplane.embedded", "--sample", "--kubernetes")
    try:
        eventually(lambda: "Waiting for your approval" in stack.said or "failed" in stack.said, seconds=1_200)
        assert "Waiting for your approval" in stack.said, stack.said
        yield stack
    finally:
        stack.stop()


def answering(stack: RunningStack) -> str:
    """Return the version that answers; empty: none does."""
    url = f"http://127.0.0.1:{stack.ports[4]}/{SERVICE}/v1/completions"
    body = {"model": "docstring-writer", "prompt": "Return", "max_tokens": 4}
    try:
        return httpx2.post(url, json=body, timeout=30).headers.get("x-slipway-version", "")
    except httpx2.HTTPError:
        return ""


def pods(stack: RunningStack) -> set[psutil.Process]:
    """Return the processes of the pods."""
    (cluster,) = stack.pids("sample-cluster").values()
    return set(psutil.Process(cluster).children())


def test_a_person_approves_it_the_stack_dies_and_comes_back_and_nothing_is_left(stack: RunningStack) -> None:
    url = f"http://127.0.0.1:{stack.port}"
    client = Client(url, (stack.home.path / "admin-token").read_text().strip())
    assert f"{url}/fleet/clusters/sample/" in stack.said
    (release,) = re.findall(rf"Waiting for your approval: {url}(/releases/[0-9]+/)", stack.said)
    assert client.get(at("clusters", "sample"))["state"] in ("ready", "warning")
    assert len(pods(stack)) == 4

    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"{url}{release}")
        page.get_by_label("Username").fill("admin")
        page.get_by_label("Password").fill((stack.home.path / "admin-password").read_text().strip())
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("button", name="Approve").first.click()
        dialog = page.locator("dialog[open]")
        dialog.locator("textarea[name=reason]").fill("The evidence is fine.")
        dialog.locator("button[type=submit]").click()
        expect(page.get_by_text("Promoted").first).to_be_visible(timeout=120_000)

    assert {answering(stack) for _ in range(10)} == {V2}
    service: Document = client.get(at("services", SERVICE))
    assert (service["stable"], service["cluster"]) == (V2, "sample")

    # It dies as a machine that runs out of memory kills: the cluster, its pods and its gateway go on.
    before, running = stack.pids(), pods(stack)
    stack.process.send_signal(signal.SIGKILL)
    stack.process.wait(30)
    eventually(lambda: not stack.pids("web"))
    assert answering(stack) == V2
    stack.process = stack.launch()
    stack.wait_until_ready(seconds=300)
    names = ("sample-cluster", "sample-gateway")
    assert stack.pids(*names) == {name: before[name] for name in names}
    assert running & pods(stack)
    assert answering(stack) == V2

    # A cluster that is killed comes back empty, under the same address; what should be there is put back.
    orphans = pods(stack)
    os.kill(stack.pids("sample-cluster")["sample-cluster"], signal.SIGKILL)
    eventually(lambda: not any(one.is_running() for one in orphans))
    eventually(lambda: stack.pids("sample-cluster") and pods(stack) and answering(stack) == V2, seconds=300)

    stack.process.send_signal(signal.SIGINT)
    stack.process.wait(60)
    eventually(lambda: stack.left_over() == [])
