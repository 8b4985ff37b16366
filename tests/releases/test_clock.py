"""The clock of a hold runs only while both versions are measured and have a ready worker."""

from datetime import timedelta
from typing import Any

import pytest

from clusters.backends.base import ClusterUnreachable, ObservedState
from gateway.backends.fake import Behaviour
from gateway.models import Route
from releases.models import ReleaseMove, ReleaseStep
from releases.services.plan import save_plan
from releases.services.release import resume
from releases.states import ReleaseState as S
from tests.releases.world import Scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.any_database]

HOLD = 30


def begin(scene: Scene, **hold: Any) -> Scene:
    steps = [
        {"kind": "deploy", "share_percent": 100},
        {"kind": "weight", "percent": 30},
        {"kind": "hold", "seconds": HOLD, "stalled_after_seconds": 120, **hold},
        {"kind": "approval"},
        {"kind": "promote"},
    ]
    save_plan(actor=scene.requester, team=scene.team, name="holding", body={"steps": steps})
    scene.start(plan_name="holding")
    scene.run_until(lambda: scene.state() is S.RUNNING and hold_step(scene).state == "running")
    return scene


@pytest.fixture
def holding(scene: Scene) -> Scene:
    return begin(scene)


def hold_step(scene: Scene) -> ReleaseStep:
    return ReleaseStep.objects.get(release=scene.release, kind="hold")


def clock(scene: Scene) -> dict[str, Any]:
    scene.release.refresh_from_db()
    found: dict[str, Any] = scene.release.baseline["clock"]
    return found


def turn_candidate(scene: Scene, state: ObservedState) -> None:
    for worker in scene.world.observe(scene.candidate):
        scene.world.turn(worker.name, state)


def test_a_hold_lasts_as_long_as_it_says(holding: Scene) -> None:
    began = holding.clock.at
    holding.run_until(lambda: hold_step(holding).state == "done")
    assert timedelta(seconds=HOLD) <= holding.clock.at - began <= timedelta(seconds=HOLD + 4)


def test_time_without_a_ready_candidate_does_not_count(holding: Scene) -> None:
    holding.run_for(5)
    turn_candidate(holding, ObservedState.STARTING)
    holding.run_for(60)
    assert hold_step(holding).state == "running"
    assert clock(holding)["seconds"] < 12
    assert clock(holding)["reason"][0]["kind"] == "clock.not_ready"
    turn_candidate(holding, ObservedState.READY)
    holding.run_until(lambda: hold_step(holding).state == "done", seconds=40)


def test_a_candidate_without_a_ready_worker_gets_no_traffic_until_it_has_one(holding: Scene) -> None:
    turn_candidate(holding, ObservedState.STARTING)
    holding.run_for(3)
    assert set(holding.split()) == {holding.stable}
    route = Route.objects.get()
    assert (route.candidate_percent, route.withheld_since is None) == (30, False)
    turn_candidate(holding, ObservedState.READY)
    holding.run_for(3)
    assert set(holding.split()) == {holding.stable, holding.candidate}
    assert Route.objects.get().withheld_since is None


def test_time_without_an_api_server_does_not_count(holding: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_asked: Any) -> Any:
        raise ClusterUnreachable("no route to host")

    with monkeypatch.context() as away:
        away.setattr(holding.world, "observe", unreachable)
        holding.run_for(75)
        assert hold_step(holding).state == "running"
        assert clock(holding)["reason"][0]["kind"] == "clock.unseen"
        assert clock(holding)["seconds"] < 20
    holding.run_until(lambda: hold_step(holding).state == "done", seconds=40)


def test_time_without_counts_does_not_count(holding: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    holding.gateway.stop()
    monkeypatch.setattr(Scene, "send", lambda *_asked: {})
    holding.run_for(100)
    assert clock(holding)["reason"][0]["kind"] == "clock.uncounted"
    assert clock(holding)["seconds"] < 10


def test_a_hold_without_enough_requests_goes_on_and_then_waits_for_a_person(
    holding: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scene, "send", lambda *_asked: {})
    holding.run_until_state(S.PAUSED, seconds=200)
    note = ReleaseMove.objects.filter(release=holding.release).latest("pk").note
    assert note.startswith("The step could not continue for 2 min. Too few requests to judge")
    resume(holding.release, actor=holding.requester)
    holding.run_until_state(S.WAITING_APPROVAL, seconds=10)


def test_a_hold_that_cannot_run_rolls_back_where_the_plan_says_so(scene: Scene) -> None:
    begin(scene, on_stalled="roll_back")
    turn_candidate(scene, ObservedState.STARTING)
    scene.run_until_state(S.ROLLED_BACK, seconds=200)
    assert "could not continue for 2 min" in scene.release.outcome


def test_a_candidate_that_fails_is_still_rolled_back_at_once(holding: Scene) -> None:
    holding.gateway.behave(holding.candidate, Behaviour(error_share=0.9))
    holding.run_until_state(S.ROLLED_BACK, seconds=30)
