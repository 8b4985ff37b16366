"""On a real stack: answers of a candidate are compared with stable's, or counted, and judged."""

import pytest

from slipway.client import Document, at
from tests.e2e.conftest import MODEL, SWIFT, Scene, Traffic
from tests.patience import eventually

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(600)]

STEPS = SWIFT["steps"]


def kinds(scene: Scene, release: Document) -> dict[str, str]:
    """Return the state of each step by its kind."""
    return {step["kind"]: step["state"] for step in scene.admin.get(at("releases", release["id"]))["steps"]}


def test_a_shadow_shows_the_approver_pairs_of_answers(scene: Scene, traffic: Traffic) -> None:
    scene.push("wordy", seed=11, engines={"echo": {"tokens": 3}})
    steps = [*STEPS[:3], {"kind": "shadow", "percent": 50, "seconds": 10}, *STEPS[3:]]
    scene.admin.create(at("plans"), {"name": "shadowed", "body": {"steps": steps}})
    release = scene.release("wordy", plan="shadowed")
    eventually(lambda: kinds(scene, release)["shadow"] != "pending", seconds=120)
    traffic.answers.clear()
    while kinds(scene, release)["shadow"] == "running":
        assert f"{MODEL}:wordy" not in traffic.answers
    release = scene.wait_for(release, "waiting_approval", "failed")
    assert release["state"] == "waiting_approval", release["outcome"]
    found = next(step for step in release["steps"] if step["kind"] == "shadow")["detail"]
    assert found["items"] >= 20
    assert found["figures"] == []
    assert found["samples"][0]["item"] == "say something"
    assert found["samples"][0]["stable"].split() == ["say", "something"]
    assert found["samples"][0]["candidate"].split() == ["say", "something", "say"]
    assert traffic.failures == []


def test_a_candidate_whose_answers_are_cut_off_is_rolled_back(scene: Scene, traffic: Traffic) -> None:
    scene.push("endless", seed=12, engines={"echo": {"tokens": 6}})
    steps = [step | ({"seconds": 300} if step["kind"] == "hold" else {}) for step in STEPS]
    plan = {"steps": steps, "judge": {"indicators": {"truncated": {}}}}
    scene.admin.create(at("plans"), {"name": "whole", "body": plan})
    release = scene.wait_for(scene.release("endless", plan="whole"), "rolled_back", "failed", "promoted")
    assert release["state"] == "rolled_back", release["outcome"]
    assert "truncated" in release["outcome"]
    assert release["verdict"]["decision"] == "roll_back"
