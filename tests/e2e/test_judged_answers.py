"""On a real stack: answers of a candidate are compared with stable's, or counted, and judged."""

import pytest

from slipway.client import at
from tests.e2e.conftest import MODEL, Scene, Traffic

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(600)]

DEPLOY = {"kind": "deploy", "share_percent": 100, "ready_within_seconds": 120}
PROMOTE = {"kind": "promote"}


def test_a_shadow_shows_the_approver_pairs_of_answers_and_no_client_gets_the_candidates(
    scene: Scene, traffic: Traffic
) -> None:
    scene.push("wordy", seed=11, serving={"tokens": 3})
    steps = [
        DEPLOY,
        {"kind": "shadow", "percent": 50, "seconds": 10},
        {"kind": "approval", "timeout_seconds": 600},
        PROMOTE,
    ]
    scene.admin.create(at("plans"), {"name": "shadowed", "body": {"steps": steps}})
    release = scene.wait_for(scene.release("wordy", plan="shadowed"), "waiting_approval", "failed")
    assert release["state"] == "waiting_approval", release["outcome"]
    found = next(step for step in release["steps"] if step["kind"] == "shadow")["detail"]
    assert found["items"] >= 20
    assert found["copies"] > found["items"] * 0.8
    assert found["figures"] == []
    assert found["samples"][0]["prompt"] == "say something"
    assert found["samples"][0]["stable"].split() == ["say", "something"]
    assert found["samples"][0]["candidate"].split() == ["say", "something", "say"]
    assert f"{MODEL}:wordy" not in traffic.answers
    assert traffic.failures == []


def test_a_candidate_whose_answers_are_cut_off_is_rolled_back(scene: Scene, traffic: Traffic) -> None:
    scene.push("endless", seed=12, serving={"tokens": 6})
    steps = [DEPLOY, {"kind": "weight", "percent": 50}, {"kind": "hold", "seconds": 300}, PROMOTE]
    plan = {"steps": steps, "judge": {"indicators": {"truncated": {}}}}
    scene.admin.create(at("plans"), {"name": "whole", "body": plan})
    release = scene.wait_for(scene.release("endless", plan="whole"), "rolled_back", "failed", "promoted")
    assert release["state"] == "rolled_back", release["outcome"]
    assert "truncated" in release["outcome"]
    assert release["verdict"]["decision"] == "roll_back"
