"""How a release goes, and how it gives up, with everything it touches simulated."""

from datetime import timedelta
from typing import Any

import pytest

from common import audit
from common.actor import Actor
from models_registry.models import AliasMove
from releases import pruning
from releases.models import EvidencePoint, Release, Service
from releases.selectors.plans import plan_of
from releases.selectors.releases import verdict_of
from releases.services.approval import reject
from releases.services.plan import save_plan
from releases.services.release import abort, pause, resume, rollback, start_release
from releases.states import IN_MOTION, ReleaseState
from tests.releases.world import Scene

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]

S = ReleaseState


def test_the_first_version_is_brought_up_by_a_release_of_its_own(scene: Scene) -> None:
    first = Release.objects.get(service=scene.service)
    assert first.state == S.PROMOTED
    assert first.from_version is None
    assert scene.service.stable_version == scene.v1
    assert scene.split() == {scene.service.stable_deployment: 500}


@pytest.mark.every_database
def test_a_good_version_waits_for_a_person_and_then_gets_all_traffic(scene: Scene) -> None:
    release = scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    share = scene.split(2000)[scene.candidate] / 2000
    assert 0.25 < share < 0.35

    scene.approve()
    scene.run_until_state(S.PROMOTED)

    assert scene.split() == {scene.candidate: 500}
    scene.run_for(20)
    assert scene.running(release.stable_deployment) == 0
    assert scene.running(scene.candidate) == 2
    scene.service.refresh_from_db()
    assert scene.service.stable_version == scene.v2
    assert scene.moves() == ["pending", "running", "waiting_approval", "running", "promoted"]
    assert [step.state for step in release.steps.all()] == ["done"] * 8
    assert audit.verify().intact


def test_a_promotion_tells_the_alias_for_whom_it_moves_however_long_their_reason_is(scene: Scene) -> None:
    Service.objects.update(alias="production")
    scene.release = start_release(
        actor=scene.requester, service=scene.service, version=scene.v2, reason="better " * 285
    )
    scene.run_until_state(S.WAITING_APPROVAL)
    scene.approve()
    scene.run_until_state(S.PROMOTED)
    moved = AliasMove.objects.get(release_id=scene.release.pk)
    people = f"asked for by {scene.requester.name}, approved by {scene.approver.name}: better"
    assert moved.reason.startswith(f"Promoted on {scene.name}, {people}")
    assert len(moved.reason) == audit.MAX_REASON


def test_the_candidate_gets_no_traffic_before_its_smoke_test_has_passed(scene: Scene) -> None:
    release = scene.start()
    kernel = scene.worker()
    while scene.state() != S.WAITING_APPROVAL:
        sent = scene.send(50)
        if len(scene.prober.asked) < 6:  # three of the first version, three of this one
            assert scene.candidate not in sent or not scene.candidate
        scene.tick(kernel)
    assert release.steps.get(kind="smoke_test").detail["probes"][0]["answer"] == "an answer"


def test_a_failing_smoke_test_ends_the_release_before_any_traffic(scene: Scene) -> None:
    scene.prober.fault = "answered 500: boom"
    scene.start()
    scene.run_until_state(S.FAILED)
    assert "answered 500: boom" in scene.release.outcome
    assert scene.split() == {scene.stable: 500}
    assert scene.running(scene.candidate) == 0


@pytest.mark.every_database
def test_a_candidate_that_answers_errors_is_rolled_back_by_the_judge(scene: Scene) -> None:
    scene.start()
    scene.misbehave(error_share=0.5)
    scene.run_until_state(S.ROLLED_BACK)
    assert scene.release.halted_by == "slipway"
    assert "5xx" in scene.release.outcome
    verdict = verdict_of(scene.release)
    assert verdict is not None
    assert verdict.decision == "roll_back"
    assert verdict.culprit == "errors"
    points = EvidencePoint.objects.filter(release=scene.release)
    assert points.count() >= 1
    assert scene.split() == {scene.stable: 500}
    assert scene.running(scene.candidate) == 0
    rule = next(one for one in pruning.RULES if one.model is EvidencePoint)
    points.update(at=scene.clock() - timedelta(days=400))
    assert not rule.due(scene.clock()).exists(), "its release has just ended"
    assert set(rule.due(scene.clock() + timedelta(days=366))) == set(points)


def test_a_candidate_that_is_slow_is_rolled_back_by_the_judge(scene: Scene) -> None:
    scene.start()
    scene.misbehave(median_ms=400)
    scene.run_until_state(S.ROLLED_BACK)
    verdict = verdict_of(scene.release)
    assert verdict is not None
    assert verdict.culprit == "slow"


def test_judging_goes_on_while_an_approval_waits(scene: Scene) -> None:
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    scene.misbehave(error_share=0.5)
    scene.run_until_state(S.ROLLED_BACK, seconds=120)


def test_judging_goes_on_during_a_pause(scene: Scene) -> None:
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    pause(scene.release, actor=scene.requester, reason="lunch")
    scene.run_until_state(S.PAUSED)
    scene.misbehave(error_share=0.5)
    scene.run_until_state(S.ROLLED_BACK, seconds=120)


def test_a_candidate_whose_workers_die_is_rolled_back_with_the_log_line(scene: Scene) -> None:
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    scene.break_candidate("RuntimeError: out of memory")
    scene.run_until_state(S.ROLLED_BACK)
    assert "out of memory" in scene.release.outcome


def test_a_candidate_that_never_starts_fails_the_release_with_the_reason(scene: Scene) -> None:
    scene.world.cannot_run = "no free port"
    scene.start()
    scene.run_until_state(S.FAILED)
    assert "no free port" in scene.release.outcome
    assert scene.split() == {scene.stable: 500}


@pytest.mark.parametrize("give_up", [abort, rollback])
@pytest.mark.parametrize("ticks", [0, 1, 2, 4, 8, 16, 24])
def test_giving_up_from_any_moment_returns_every_request_to_stable_at_once(
    scene: Scene, give_up: Any, ticks: int
) -> None:
    scene.start()
    kernel = scene.worker()
    for _ in range(ticks):
        scene.tick(kernel)
    assert scene.state() in IN_MOTION
    give_up(scene.release, actor=scene.requester, reason="changed my mind")
    scene.worker().advance("releases.release", scene.release.pk)
    assert scene.split() == {scene.stable: 500}
    ended = {abort: S.ABORTED, rollback: S.ROLLED_BACK}[give_up]
    scene.run_until_state(ended)
    assert scene.release.outcome == "changed my mind"
    scene.run_for(20)
    assert not scene.candidate or scene.running(scene.candidate) == 0
    assert scene.running(scene.stable) == 2


def test_a_rejection_returns_traffic_and_says_who_and_why(scene: Scene) -> None:
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    reject(scene.release, actor=scene.approver, reason="not on a Friday")
    scene.run_until_state(S.REJECTED)
    assert scene.release.halted_by == "bo"
    assert scene.release.outcome == "not on a Friday"
    assert scene.split() == {scene.stable: 500}


def test_an_approval_times_out_as_the_plan_says(scene: Scene) -> None:
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    scene.clock.pass_(timedelta(seconds=580))
    scene.run_for(5)
    assert scene.state() == S.WAITING_APPROVAL
    scene.run_until_state(S.ROLLED_BACK, seconds=60)
    assert "Nobody decided" in scene.release.outcome


def test_a_pause_stays_where_it_is_and_a_resume_goes_on(scene: Scene) -> None:
    scene.start()
    scene.run_for(3)
    pause(scene.release, actor=scene.requester)
    scene.run_until_state(S.PAUSED)
    index = scene.release.step_index
    scene.run_for(30)
    scene.release.refresh_from_db()
    assert scene.release.step_index == index
    resume(scene.release, actor=scene.requester)
    scene.run_until_state(S.WAITING_APPROVAL)


def test_the_history_says_who_moved_the_release(scene: Scene) -> None:
    release = scene.start()
    scene.run_until_state(S.RUNNING)
    pause(release, actor=scene.requester)
    scene.run_until_state(S.PAUSED)
    resume(release, actor=scene.requester)
    scene.run_until_state(S.WAITING_APPROVAL)
    scene.approve()
    scene.run_until_state(S.PROMOTED)
    told = release.moves.values_list("after", "actor", "note")
    assert list(told) == [
        (S.PENDING, "ada", "better"),
        (S.RUNNING, "slipway", "Started."),
        (S.PAUSED, "ada", ""),
        (S.RUNNING, "slipway", "Resumed."),
        (S.WAITING_APPROVAL, "slipway", "Waiting for approval."),
        (S.RUNNING, "bo", "Approved: fine"),
        (S.PROMOTED, "slipway", f"story:v2 serves all traffic of {scene.name}."),
    ]


@pytest.mark.every_database
def test_a_promoted_release_is_rolled_back_by_a_release_of_the_version_before(scene: Scene) -> None:
    promoted = scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    scene.approve()
    scene.run_until_state(S.PROMOTED)
    scene.release = rollback(promoted, actor=scene.requester, reason="users complain")
    assert scene.release.undoes == promoted
    assert scene.release.plan_name == "rollback"
    scene.run_until_state(S.PROMOTED)
    scene.service.refresh_from_db()
    assert scene.service.stable_version == scene.v1


def test_a_release_keeps_the_plan_it_started_with(scene: Scene) -> None:
    release = scene.start()
    body = {"steps": [{"kind": "deploy", "replicas": 1}, {"kind": "promote"}]}
    save_plan(actor=Actor.system("test"), team=scene.team, name="swift", body=body, reason="test")
    scene.run_until_state(S.WAITING_APPROVAL)
    release.refresh_from_db()
    assert len(plan_of(release).steps) == 8


def test_a_gateway_that_is_down_makes_a_release_stuck_with_the_reason_and_it_can_be_resumed(
    scene: Scene,
) -> None:
    scene.start()
    scene.gateway.stop()
    kernel = scene.worker()
    for _ in range(200):
        kernel.sweep()
        scene.clock.pass_(timedelta(seconds=0.5))
    assert scene.state() == S.STUCK
    assert scene.release.last_error
    scene.gateway.start()
    resume(scene.release, actor=scene.requester, reason="it is back")
    scene.run_until_state(S.WAITING_APPROVAL)


def test_a_stuck_release_can_be_aborted(scene: Scene) -> None:
    scene.start()
    scene.gateway.stop()
    kernel = scene.worker()
    for _ in range(200):
        kernel.sweep()
        scene.clock.pass_(timedelta(seconds=0.5))
    scene.gateway.start()
    abort(scene.release, actor=scene.requester, reason="enough")
    scene.run_until_state(S.ABORTED)


def test_a_gateway_restart_in_mid_release_neither_promotes_nor_blames(scene: Scene) -> None:
    scene.start()
    scene.run_until(lambda: scene.release.steps.get(kind="hold").state == "running")
    scene.gateway.restart()
    scene.run_until_state(S.WAITING_APPROVAL)
    verdict = verdict_of(scene.release)
    assert verdict is not None
    assert verdict.decision != "roll_back"


def test_a_look_costs_few_queries(scene: Scene, django_assert_num_queries) -> None:
    release = scene.start()
    kernel = scene.worker()
    scene.run_until(lambda: release.steps.get(kind="hold").state == "running")
    scene.run_for(3)  # until stable's usual speed is known
    release.refresh_from_db()
    assert (release.steps.get(kind="hold").state, release.evidence["looks"] > 1) == ("running", True)
    due = []
    while not due:
        scene.clock.pass_(timedelta(seconds=0.1))
        due = [row for row in kernel.due() if row.kind == "releases.release"]
    # Claim, the row, its gateway, the candidate's state; a transaction with the row and a point of the curve.
    with django_assert_num_queries(8):
        assert kernel.advance(due[0].kind, due[0].id, fence=due[0].fence) == 1
