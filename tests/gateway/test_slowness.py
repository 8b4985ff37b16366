"""A service that answers slower than on the day before is found, whatever its latency is."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway.history import minute_of, packed
from gateway.latency import BOUNDS_MS
from gateway.models import Route, TrafficReading
from gateway.slowness import SLOWER_TIMES, ServiceSpeed, service_speeds
from gateway.traffic import TargetCounts
from tests.gateway.cast import cluster, gateway_of

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
FAST, SLOW = BOUNDS_MS[5], BOUNDS_MS[-3]


def slow_services(now: datetime) -> list[ServiceSpeed]:
    return [one for one in service_speeds(now) if one.times_slower > SLOWER_TIMES]


@pytest.fixture
def route() -> Route:
    cluster()
    return Route.objects.create(
        gateway=gateway_of(),
        service="chat",
        stable_target="chat-1",
        stable_version="chat:v1",
        writer=0,
        writer_turn=1,
        changed_at=NOW,
    )


def reading(
    route: Route,
    minutes_ago: int,
    *,
    fast: int,
    slow: int,
    epoch: str = "1",
    up: timedelta = timedelta(days=3),
) -> None:
    at = NOW - timedelta(minutes=minutes_ago)
    below = [(bound, fast * (bound >= FAST) + slow * (bound >= SLOW)) for bound in (*BOUNDS_MS, math.inf)]
    counts = TargetCounts(
        epoch=epoch,
        since=NOW - up,
        routed=fast + slow,
        requests=fast + slow,
        errors=0,
        broken=0,
        abandoned=0,
        forced_requests=0,
        forced_errors=0,
        latency_ms=tuple(below),
        first_byte_ms=(),
        in_flight=0,
    )
    TrafficReading.objects.create(route=route, minute=minute_of(at), at=at, counts=packed({"chat-1": counts}))


def day(route: Route, *, slow_before: int, fast_lately: int, slow_lately: int, epoch: str = "1") -> None:
    reading(route, 23 * 60, fast=0, slow=0)
    reading(route, 11, fast=9_000, slow=slow_before)
    reading(route, 1, fast=9_000 + fast_lately, slow=slow_before + slow_lately, epoch=epoch)


def test_a_service_that_became_twice_as_slow_is_found_with_both_figures(route: Route) -> None:
    day(route, slow_before=90, fast_lately=100, slow_lately=60)
    (found,) = slow_services(NOW)
    assert found.service == "chat"
    assert found.usual_ms <= FAST < found.p95_ms <= SLOW


@pytest.mark.parametrize(
    "given",
    [
        {"slow_before": 90, "fast_lately": 1_000, "slow_lately": 10},
        {"slow_before": 3_000, "fast_lately": 100, "slow_lately": 60},
        {"slow_before": 90, "fast_lately": 20, "slow_lately": 20},
        {"slow_before": 90, "fast_lately": 100, "slow_lately": 60, "epoch": "2"},
    ],
    ids=["as quick as before", "slow before as well", "too few requests", "counted anew"],
)
def test_others_are_not(route: Route, given: dict[str, int]) -> None:
    day(route, **given)
    assert not list(slow_services(NOW))


RESTARTED = timedelta(hours=6)


def day_with_a_restart(route: Route, *, slow_lately: int) -> None:
    """9,000 quick answers before the gateway started again, and 50 since then."""
    reading(route, 23 * 60, fast=0, slow=0)
    reading(route, 7 * 60, fast=9_000, slow=90)
    for hours_ago in (5, 1):
        reading(route, hours_ago * 60, fast=40, slow=0, epoch="2", up=RESTARTED)
    reading(route, 11, fast=50, slow=0, epoch="2", up=RESTARTED)
    reading(route, 1, fast=150, slow=slow_lately, epoch="2", up=RESTARTED)


def test_a_service_is_compared_with_the_hours_before_the_gateway_started_again(route: Route) -> None:
    day_with_a_restart(route, slow_lately=60)
    (found,) = slow_services(NOW)
    assert found.usual_ms <= FAST < found.p95_ms


def test_a_restart_of_the_gateway_alone_makes_no_service_slow(route: Route) -> None:
    day_with_a_restart(route, slow_lately=2)
    assert not list(slow_services(NOW))


def test_what_was_answered_since_a_restart_of_minutes_ago_is_compared(route: Route) -> None:
    reading(route, 23 * 60, fast=0, slow=0)
    reading(route, 11, fast=9_000, slow=90)
    reading(route, 1, fast=100, slow=60, epoch="2", up=timedelta(minutes=9))
    assert list(slow_services(NOW))


def test_services_whose_counts_went_on_all_day_take_one_query(
    route: Route, django_assert_num_queries: Any
) -> None:
    day(route, slow_before=90, fast_lately=100, slow_lately=60)
    with django_assert_num_queries(1):
        assert list(slow_services(NOW))
