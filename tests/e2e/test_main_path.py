"""The main job on a real stack: from a directory to all of the traffic, through a canary and a click."""

import json

import pytest
from playwright.sync_api import expect

from slipway.client import at
from tests.browser import chromium
from tests.e2e.conftest import MODEL, SERVICE, Scene, Traffic
from tests.patience import eventually

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]


def serving(scene: Scene) -> str:
    return str(scene.admin.get(at("services", SERVICE))["stable"])


def other_than(version: str) -> str:
    """The name of one that is not `version`."""
    return "v2" if version != f"{MODEL}:v2" else "v3"


def test_the_serving_version_answers_through_the_gateway(scene: Scene) -> None:
    answer = scene.ask()
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-slipway-version"] == serving(scene)
    assert answer.json()["choices"][0]["text"]


@pytest.mark.smoke
def test_a_pipeline_releases_waits_for_a_person_and_sees_the_end(scene: Scene, traffic: Traffic) -> None:
    stable = serving(scene)
    candidate = f"{MODEL}:{other_than(stable)}"
    eventually(lambda: traffic.answers[stable] > 120)
    started = scene.slipway(
        "--output", "json", "release", "start", "--yes", SERVICE, candidate, "--plan", "swift",
        "--reason", "longer training", "--wait-for", "approval", token=scene.ci_token,
    )  # fmt: skip
    assert started.returncode == 5, started.stderr
    release = json.loads(started.stdout)
    assert release["state"] == "waiting_approval"
    assert scene.ask(release="canary").headers["x-slipway-version"] == candidate
    assert scene.ask(release="stable").headers["x-slipway-version"] == stable

    address = at("releases", release["id"])
    eventually(lambda: scene.admin.get(address)["weights"]["requests"] > 50)
    weights = scene.admin.get(address)["weights"]
    low, high = weights["interval_percent"]
    assert weights["desired"]["candidate"] == 30
    assert low <= weights["observed"]["candidate"] <= high

    refused = scene.slipway(
        "release", "approve", "--yes", str(release["id"]), "--reason", "me", token=scene.ci_token
    )
    assert refused.returncode == 7

    approved = scene.slipway(
        "release", "approve", "--yes", str(release["id"]), "--reason", "looks good", "--wait"
    )
    assert approved.returncode == 0, approved.stderr
    assert scene.admin.get(at("services", SERVICE))["stable"] == candidate
    # What had been sent to stable before ends there.
    eventually(lambda: set(traffic.latest) == {candidate})
    traffic.answers.clear()
    eventually(lambda: traffic.answers.total() > 50)
    assert set(traffic.answers) == {candidate}
    eventually(lambda: scene.workers() == {f"{SERVICE}-r{release['id']}": 2})
    assert traffic.failures == []


def test_an_abort_returns_every_request_to_stable(scene: Scene, traffic: Traffic) -> None:
    stable = serving(scene)
    release = scene.wait_for(scene.release(other_than(stable)), "waiting_approval")
    scene.ci.post(at("releases", release["id"], "abort"), {"reason": "changed my mind"})

    def answering() -> set[str]:
        return {scene.ask(release="canary").headers["x-slipway-version"] for _ in range(5)}

    eventually(lambda: answering() == {stable})
    ended = scene.wait_for(release, "aborted")
    assert ended["outcome"] == "changed my mind"
    eventually(lambda: list(scene.workers().values()) == [2])
    assert f"{SERVICE}-r{release['id']}" not in scene.workers()
    assert traffic.failures == []


@pytest.mark.browser
def test_an_approver_finds_the_release_at_home_clicks_and_sees_it_promoted(
    scene: Scene, traffic: Traffic
) -> None:
    version = other_than(serving(scene))
    release = scene.wait_for(scene.release(version), "waiting_approval")
    complaints: list[str] = []
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.on(
            "console", lambda message: complaints.append(message.text) if message.type == "error" else None
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))

        page.goto(f"{scene.url}/")
        page.get_by_label("Username").fill("admin")
        page.get_by_label("Password").fill(scene.admin_password)
        page.get_by_role("button", name="Sign in").click()
        page.locator(f"a[href*='/releases/{release['id']}/']").first.click()
        expect(page.get_by_text("Waiting for approval").first).to_be_visible()
        page.get_by_role("button", name="Approve").first.click()
        dialog = page.locator("dialog[open]")
        dialog.locator("textarea[name=reason]").fill("The evidence is fine.")
        dialog.locator("button[type=submit]").click()
        eventually(lambda: set(traffic.latest) == {f"{MODEL}:{version}"})
        expect(page.get_by_text("Promoted").first).to_be_visible(timeout=60_000)

    assert complaints == []
    assert traffic.failures == []
    approval = scene.admin.get(at("releases", release["id"]))["approvals"][0]
    assert (approval["by"], approval["reason"]) == ("admin", "The evidence is fine.")
