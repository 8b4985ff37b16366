"""From when on an answer is slow: learnt from enough healthy traffic, kept, not raised without a word."""

import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from clusters.models import Deployment
from clusters.models.deployments import MAX_SLOTS
from common.models import AuditRecord
from gateway.backends.fake import Behaviour
from gateway.history import minute_of, packed
from gateway.models import Route, TrafficReading
from releases.judge.threshold import (
    JUMP,
    LEAST_REQUESTS,
    StableTraffic,
    StoredThreshold,
    Threshold,
    at_bound,
    is_unusable,
    threshold,
)
from releases.models import SlowThreshold
from releases.selectors.releases import slow_threshold, threshold_of
from releases.services.plan import save_plan
from releases.services.release import abort
from releases.states import ReleaseState as S
from tests.cast import api, person
from tests.gateway.counting import histogram_of
from tests.releases.test_traffic import counts
from tests.releases.world import SWIFT, Scene

pytestmark = pytest.mark.any_database


def stretch(p95_ms: float, *, requests: int = 300, errors: int = 0) -> StableTraffic:
    """Answers of which one in twenty took longer than `p95_ms`."""
    spread = random.Random(7)
    milliseconds = [
        p95_ms * (1.2 if i % 20 == 0 else spread.uniform(0.4, 0.99)) for i in range(requests - errors)
    ]
    return StableTraffic(requests, errors, histogram_of(milliseconds))


def test_the_plans_objective_comes_first() -> None:
    found = threshold(300, StoredThreshold(800, "learnt"), [stretch(1000)])
    assert found == Threshold(320, "plan")
    assert at_bound(10**9) == 320_000


def test_too_few_answers_teach_nothing() -> None:
    assert threshold(None, None, [stretch(320, requests=LEAST_REQUESTS - 1)]) is None
    kept = threshold(None, StoredThreshold(320, "learnt"), [stretch(160, requests=50)])
    assert kept is not None
    assert (kept.milliseconds, kept.measured_ms, kept.is_held) == (320, None, False)


@pytest.mark.parametrize("ill", [stretch(16_000, requests=900), stretch(16_000, requests=900, errors=300)])
def test_overloaded_and_failing_stretches_are_left_out(ill: StableTraffic) -> None:
    found = threshold(None, None, [*(stretch(320) for _ in range(6)), ill, ill])
    assert found is not None
    assert (found.milliseconds, found.source) == (320, "learnt")


def busy(p95_ms: float, *, requests: int) -> StableTraffic:
    """A stretch of five minutes; how many requests were in flight follows from how long they took."""
    return replace(stretch(p95_ms, requests=requests), seconds=300)


def test_nothing_is_learnt_while_stable_had_no_free_slot() -> None:
    saturated = busy(32_000, requests=900)  # about 68 in flight
    assert saturated.is_saturated(8)
    assert threshold(None, None, [saturated] * 6, slots=8) is None
    assert is_unusable([saturated] * 6, slots=8)
    calm = busy(320, requests=900)
    found = threshold(None, None, [calm, *([saturated] * 6)], slots=8)
    assert found is not None
    assert (found.milliseconds, found.requests) == (320, 900)
    assert not is_unusable([calm, saturated], slots=8)


def test_many_small_steps_upwards_are_a_jump() -> None:
    found = threshold(None, StoredThreshold(640, "learnt", lowest_ms=320), [stretch(1000)])
    assert found is not None
    assert (found.milliseconds, found.measured_ms) == (640, 1000)


def test_a_small_change_is_followed_and_a_large_one_upwards_needs_a_word() -> None:
    kept = StoredThreshold(320, "learnt")
    followed = threshold(None, kept, [stretch(500)])
    assert followed is not None
    assert (followed.milliseconds, followed.previous_ms, followed.is_news, followed.is_held) == (
        500,
        320,
        True,
        False,
    )

    held = threshold(None, kept, [stretch(16_000)])
    assert held is not None
    assert (held.milliseconds, held.measured_ms, held.is_held, held.is_news) == (320, 16_000, True, False)

    calmer = threshold(None, StoredThreshold(16_000, "learnt"), [stretch(320)])
    assert calmer is not None
    assert (calmer.milliseconds, calmer.is_news) == (320, True)


pytest_db = pytest.mark.django_db(transaction=True)


def first_look(scene: Scene, **how: Any) -> Threshold:
    scene.start(**how)
    scene.run_until(lambda: scene.state() == S.RUNNING and scene.release.candidate_percent > 0)
    scene.run_for(2)
    scene.release.refresh_from_db()
    found = threshold_of(scene.release)
    assert found is not None
    return found


@pytest_db
def test_an_overload_between_two_releases_does_not_become_usual(scene: Scene) -> None:
    # With free slots all the time: it is slow by itself.
    Deployment.objects.filter(name=scene.service.stable_deployment).update(slots=MAX_SLOTS)
    learnt = first_look(scene)
    assert SlowThreshold.objects.get().milliseconds == learnt.milliseconds
    abort(scene.release, actor=scene.requester, reason="again later")
    scene.run_until_state(S.ABORTED)

    scene.gateway.behave(scene.stable, Behaviour(median_ms=16_000))
    scene.send(600)
    held = first_look(scene)
    assert (held.milliseconds, held.is_held) == (learnt.milliseconds, True)
    assert held.measured_ms is not None
    assert held.measured_ms > JUMP * learnt.milliseconds
    assert SlowThreshold.objects.count() == 1

    bo = api(person("cy", speech="approver"))
    body = bo.get(f"releases/{scene.release.pk}/").json()["slow_threshold"]
    assert (body["milliseconds"], body["is_held"]) == (learnt.milliseconds, True)
    given = {"milliseconds": held.measured_ms, "reason": "the 70B model"}
    answer = bo.post(f"services/{scene.name}/slow-thresholds/", given)
    assert answer.status_code == 201
    abort(scene.release, actor=scene.requester, reason="again")
    scene.run_until_state(S.ABORTED)
    assert first_look(scene).milliseconds == held.measured_ms
    told = bo.get(f"services/{scene.name}/slow-thresholds/").json()
    assert [one["source"] for one in told] == ["person", "learnt"]
    assert AuditRecord.objects.filter(action="service.slow_threshold", reason="the 70B model").exists()


@pytest_db
def test_the_threshold_is_for_approvers_and_has_bounds_and_a_reason(scene: Scene) -> None:
    path = f"services/{scene.name}/slow-thresholds/"
    given = {"milliseconds": 400, "reason": "because"}
    assert api(person("dee", speech="developer")).post(path, given).status_code == 403
    approver = api(person("cy", speech="approver"))
    for bad in ({"milliseconds": 0}, {"milliseconds": 10**7}, {"reason": ""}, {"milliseconds": "slow"}):
        assert approver.post(path, given | bad).status_code == 400
    assert approver.post(path, given).json()["milliseconds"] == 400


@pytest_db
def test_the_objective_of_a_plan_is_said_to_be_the_plans(scene: Scene) -> None:
    body = {"steps": SWIFT["steps"], "judge": {"slow_above_ms": 700}}
    save_plan(actor=scene.requester, team=scene.team, name="strict", body=body)
    found = first_look(scene, plan_name="strict")
    assert (found.milliseconds, found.source) == (800, "plan")
    assert scene.release.evidence["slow_threshold_ms"] == 800
    assert not SlowThreshold.objects.exists()


@pytest_db
def test_what_is_usual_is_read_from_the_hours_before_the_release(scene: Scene) -> None:
    """An hour of calm, then ten minutes of overload that end just now."""
    route, now = Route.objects.get(service=scene.name), timezone.now()
    so_far: list[float] = []
    rows = []
    for minute in range(0, 71, 5):
        so_far += 100 * [16_000.0] if minute > 60 else [*(94 * [80.0]), *(6 * [300.0])]
        at = now - timedelta(minutes=71 - minute)
        reading = {"a": _with(counts(len(so_far)), so_far)}
        rows.append(TrafficReading(route=route, minute=minute_of(at), at=at, counts=packed(reading)))
    TrafficReading.objects.bulk_create(rows)
    release = scene.start()
    release.stable_deployment = "a"
    found = slow_threshold(release, at=now, counts=_with(counts(len(so_far)), so_far))
    assert found is not None
    assert found.milliseconds == 80


def _with(one: Any, milliseconds: list[float]) -> Any:
    return replace(one, latency_ms=histogram_of(milliseconds))
