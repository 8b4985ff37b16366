"""Policies of services: versions in force, and replays of others over what was recorded."""

from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity import services
from capacity.errors import InvalidPool
from capacity.models import Pool, PoolMember, ScalingPolicy, ServiceLoad
from capacity.observing import look_at
from capacity.planning.errors import PlanningError
from capacity.planning.law import ScalingLaw
from capacity.planning.replay import LoadPoint, replay
from capacity.replays import recorded, replay_policy
from tests.capacity.shared_pool import Shared
from tests.cast import SYSTEM, api, client_of, person
from tests.valkey import ValkeyServer

TIDE = [LoadPoint(10.0 * step, 2.0 if step % 360 < 180 else 6.0) for step in range(2_000)]


def test_a_lower_target_waits_less_and_leaves_less() -> None:
    tight, wide = (
        replay(ScalingLaw(target), TIDE, switch_seconds=60, least=1, most=20) for target in (0.95, 0.3)
    )
    assert tight.violations > wide.violations
    assert tight.harvest > wide.harvest


@settings(deadline=None, max_examples=60)
@given(loads=st.lists(st.floats(0, 30), min_size=2, max_size=60), least=st.integers(0, 5))
def test_a_replay_keeps_to_the_limits_of_the_service(loads: list[float], least: int) -> None:
    points = [LoadPoint(10.0 * step, load) for step, load in enumerate(loads)]
    told = replay(ScalingLaw(0.7), points, switch_seconds=0, least=least, most=10)
    assert all(least <= point.workers <= 10 for point in told.points)
    assert 0 <= told.violations <= 1
    assert 0 <= told.harvest <= 1
    assert told.points[0].workers >= min(10, ceil(loads[0]))


@pytest.mark.parametrize(
    "points", [[], [LoadPoint(0, 1)], [LoadPoint(5, 1), LoadPoint(5, 1)], [LoadPoint(0, 1), LoadPoint(1, -1)]]
)
def test_points_that_are_no_record_are_refused(points: list[LoadPoint]) -> None:
    with pytest.raises(PlanningError, match="points"):
        replay(ScalingLaw(0.7), points, switch_seconds=0, least=1, most=10)


@pytest.fixture
def shared_pool(db: None, valkey: ValkeyServer) -> Shared:
    return Shared()


def member(service: str = "chat") -> PoolMember:
    return PoolMember.objects.select_related("pool__cluster").get(service=service)


def test_the_policy_in_force_decides_and_the_one_before_stays_to_be_read(shared_pool: Shared) -> None:
    services.set_policy(member(), actor=SYSTEM, law={"target": 0.9})
    services.set_policy(member(), actor=SYSTEM, law={"target": 0.4}, reason="A launch.")
    shared_pool.beat()
    looks = {look.service: look for look in look_at(Pool.objects.get(), shared_pool.scene.clock()).looks}
    assert (looks["chat"].target, looks["chat"].wanted) == (0.4, 4)
    assert looks["code"].target == 0.75
    versions = ScalingPolicy.objects.with_force().values_list("number", "is_active")
    assert list(versions) == [(2, True), (1, False)]


@pytest.mark.parametrize(
    "law", [{"target": 1.5}, {"goal": 1}, {"hold_seconds": "long"}, {"target": float("nan")}]
)
def test_a_law_that_cannot_be_is_refused_by_its_field(shared_pool: Shared, law: dict[str, object]) -> None:
    with pytest.raises(InvalidPool) as refused:
        services.set_policy(member(), actor=SYSTEM, law=law)
    assert list(refused.value.fields) == list(law)


def test_looks_record_the_load_that_policies_are_replayed_on(shared_pool: Shared) -> None:
    shared_pool.load = {"chat": 2.0, "code": 1.0}
    shared_pool.pass_(80)
    assert ServiceLoad.objects.filter(member=member()).exists()
    points = recorded(member(), hours=1)
    assert len(points) >= 7
    assert {round(point.load, 2) for point in points} == {2.0}

    told = replay_policy(member(), {"target": 0.4}, hours=1)
    assert told.proposed.harvest < told.present.harvest
    assert not ScalingPolicy.objects.exists(), "a replay changes nothing"


def test_people_replay_a_policy_before_they_put_it_in_force(shared_pool: Shared) -> None:
    shared_pool.pass_(60)
    page = f"/capacity/{shared_pool.pool.pk}/chat/policy/"
    browser = client_of(person("ada", vision="approver"))
    replayed = browser.post(page, {"target": "0.5", "do": "replay"})
    assert replayed.status_code == 200
    assert 'id="replay"' in replayed.content.decode()
    assert not ScalingPolicy.objects.exists()
    assert browser.post(page, {"target": "7", "do": "switch"}).status_code == 422
    assert browser.post(page, {"target": "0.5", "do": "switch"}).status_code in (204, 302)
    assert ScalingPolicy.objects.get().law == {"target": 0.5}


def test_rest_replays_given_points_and_asks_for_more_rights_in_an_automatic_pool(shared_pool: Shared) -> None:
    rest = api(person("dina", vision="developer"))
    points = [[point.at, point.load] for point in TIDE[:400]]
    body = {"service": "chat", "law": {"target": 0.5}, "points": points}
    answer = rest.post("capacity/policies/replay/", body)
    assert answer.status_code == 200, answer.content
    assert answer.json()["proposed"]["harvest"] < answer.json()["present"]["harvest"]
    policy = {"service": "chat", "law": {"target": 0.5}}
    assert rest.post("capacity/policies/", policy).status_code == 201
    Pool.objects.update(state="automatic")
    assert rest.post("capacity/policies/", policy).status_code == 403
