"""A weight counts as reached when the split that requests really see says so."""

from itertools import cycle
from typing import Any

import pytest

from releases.models import ReleaseStep
from releases.services.plan import save_plan
from releases.states import ReleaseState as S
from tests.releases.world import Scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.any_database]

STEPS = [
    {"kind": "deploy", "share_percent": 100},
    {"kind": "weight", "percent": 10},
    {"kind": "weight", "percent": 40},
    {"kind": "approval"},
    {"kind": "promote"},
]


@pytest.fixture
def rising(scene: Scene) -> Scene:
    save_plan(actor=scene.requester, team=scene.team, name="rising", body={"steps": STEPS})
    scene.start(plan_name="rising")
    return scene


def ignore_weights(scene: Scene) -> None:
    """Send as many requests to one side as to the other from now on."""
    turns = cycle((True, False))

    def choose(spec: Any, *_asked: Any) -> tuple[Any, bool]:
        both = spec.candidate is not None and spec.candidate_percent
        return (spec.candidate if both and next(turns) else spec.stable), False

    scene.gateway._choose = choose  # type: ignore[method-assign]


def weights(scene: Scene) -> list[ReleaseStep]:
    return list(ReleaseStep.objects.filter(release=scene.release, kind="weight").order_by("index"))


def test_each_weight_says_what_was_measured_at_it(rising: Scene) -> None:
    rising.run_until_state(S.WAITING_APPROVAL)
    for step, percent in zip(weights(rising), (10, 40), strict=True):
        assert step.detail["wished_percent"] == percent
        assert step.detail["within"] is True
        assert f"The gateway sends {percent} %" in step.detail["note"]
        assert "is what chance allows" in step.detail["note"]


def test_the_next_weight_waits_for_the_split_of_this_one(rising: Scene) -> None:
    rising.run_until(lambda: weights(rising)[0].state == "running")
    rising.run_until(lambda: rising.state() is S.RUNNING and rising.release.candidate_percent == 10)
    assert weights(rising)[1].state == "pending"
    assert rising.release.phase == "measuring"


def test_a_gateway_that_ignores_weights_is_held_at_the_first_and_named(rising: Scene) -> None:
    ignore_weights(rising)
    rising.run_until(lambda: rising.state() is S.RUNNING and rising.release.candidate_percent == 10)
    rising.run_for(20)
    assert rising.state() is S.RUNNING
    assert (weights(rising)[0].state, weights(rising)[1].state) == ("running", "pending")
    assert rising.release.progress["within"] is False
    rising.run_until_state(S.ROLLED_BACK, seconds=120)
    assert rising.release.outcome.startswith("The gateway does not split as told (10 %)")


def test_without_requests_a_weight_does_not_wait_for_ever(
    rising: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scene, "send", lambda *_args: {})
    rising.run_until_state(S.WAITING_APPROVAL, seconds=60)
    assert "the split could not be measured" in weights(rising)[0].detail["note"]


def test_the_weight_is_set_once_while_it_is_measured(rising: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    sets: list[int] = []
    real = rising.gateway.set_route
    monkeypatch.setattr(
        rising.gateway,
        "set_route",
        lambda spec, *, fence: (sets.append(spec.candidate_percent), real(spec, fence=fence))[1],
    )
    rising.run_until_state(S.WAITING_APPROVAL)
    assert [one for one in sets if one] == [10, 40]
