"""Counts of the gateway are kept minute by minute: true, bounded, and a gap where nobody counted."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from common.actor import Actor
from common.fence import Fence
from gateway import history, selectors
from gateway.backends.fake import Behaviour, FakeGateway
from gateway.models import Gateway, TrafficReading
from gateway.reconcilers import KEPT, GatewayReconciler
from gateway.routes import RouteSpec, RouteTarget, WorkerEndpoint
from tests.crash.harness import Checkpoints, Clock, Crash, die, worker
from tests.gateway.cast import fake_gateway, set_route

ANN = Actor(name="ann", user_id=1, via="web")
STABLE, CANARY = RouteTarget("chat-1", "chatty:1"), RouteTarget("chat-2", "chatty:2")
MINUTE = timedelta(minutes=1)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime(2030, 1, 1, 12, 0, 5, tzinfo=UTC))


@pytest.fixture
def gateway() -> FakeGateway:
    gateway = fake_gateway()
    set_route(RouteSpec("chat", STABLE, CANARY, 20), fence=Fence(1, 1), actor=ANN)
    for number, target in enumerate((STABLE, CANARY)):
        workers = [WorkerEndpoint("127.0.0.1", 9000 + number)]
        gateway.set_target(target.name, workers, observed_at=datetime.now(UTC))
    return gateway


def pass_minute(clock: Clock, checkpoints: Checkpoints | None = None) -> None:
    Gateway.objects.update(next_at=clock(), recorded_minute=0)
    worker([GatewayReconciler()], clock, checkpoints).sweep()
    clock.pass_(MINUTE)


def kept(clock: Clock, *, step: timedelta = MINUTE) -> list[history.TrafficInterval]:
    return selectors.traffic_history("chat", since=clock() - timedelta(hours=2), until=clock(), step=step)


def requests(stretches: list[history.TrafficInterval]) -> list[int | None]:
    return [
        None if stretch.targets is None else sum(one.requests for one in stretch.targets.values())
        for stretch in stretches
    ]


def test_each_minute_tells_what_each_version_answered_in_it(gateway: FakeGateway, clock: Clock) -> None:
    gateway.behave(CANARY.name, Behaviour(error_share=0.5))
    pass_minute(clock)
    gateway.send("chat", 600)
    pass_minute(clock)
    pass_minute(clock)

    busy, idle = kept(clock)
    assert requests([busy, idle]) == [600, 0]
    assert busy.targets is not None
    canary, stable = busy.targets[CANARY.name], busy.targets[STABLE.name]
    assert canary.error_share == pytest.approx(0.5, abs=0.2)
    assert stable.requests_per_s == stable.requests / 60
    assert stable.latency_ms.p95 is not None


def test_who_records_wakes_up_at_the_next_full_minute(gateway: FakeGateway, clock: Clock) -> None:
    pass_minute(clock)
    clock.pass_(timedelta(seconds=45))
    worker([GatewayReconciler()], clock).sweep()
    assert Gateway.objects.get().next_at == datetime(2030, 1, 1, 12, 2, tzinfo=UTC)


def test_coarse_stretches_lose_no_request(gateway: FakeGateway, clock: Clock) -> None:
    for _ in range(23):
        pass_minute(clock)
        gateway.send("chat", 10)

    fine, coarse = kept(clock), kept(clock, step=timedelta(minutes=5))
    assert len(fine) == 22
    assert len(coarse) <= 5
    assert sum(filter(None, requests(coarse))) <= sum(filter(None, requests(fine))) == 220
    # But for what came before the end of the first stretch, which nothing precedes.
    assert sum(filter(None, requests(coarse))) >= 220 - 50


@pytest.mark.parametrize("why", ["nobody recorded", "the gateway was away", "the gateway started again"])
def test_what_nobody_counted_is_a_gap_and_not_a_zero(gateway: FakeGateway, clock: Clock, why: str) -> None:
    pass_minute(clock)
    gateway.send("chat", 100)
    if why == "nobody recorded":
        clock.pass_(10 * MINUTE)
    elif why == "the gateway was away":
        gateway.stop()
        for _ in range(3):
            pass_minute(clock)
        gateway._runs = True
    else:
        gateway.restart()
    pass_minute(clock)
    gateway.send("chat", 7)
    pass_minute(clock)

    assert requests(kept(clock)) == [None, 7]


def test_a_recorder_that_dies_anywhere_neither_repeats_a_minute_nor_loses_a_request(
    gateway: FakeGateway, clock: Clock
) -> None:
    pass_minute(clock)
    gateway.send("chat", 50)
    at = 0
    while True:
        at += 1
        checkpoints = Checkpoints(at, die)
        try:
            pass_minute(clock, checkpoints)
        except Crash:
            clock.pass_(MINUTE)
            continue
        if checkpoints.passed < at:
            break
    minutes = list(TrafficReading.objects.values_list("minute", flat=True))
    assert at > 2
    assert len(minutes) == len(set(minutes))
    first, last = TrafficReading.objects.order_by("minute").first(), TrafficReading.objects.last()
    assert first is not None
    assert last is not None
    before, after = history.unpacked(first.counts), history.unpacked(last.counts)
    assert sum(one.requests for one in after.values()) - sum(one.requests for one in before.values()) == 50


def test_readings_are_kept_for_thirty_days(gateway: FakeGateway, clock: Clock) -> None:
    pass_minute(clock)
    clock.pass_(KEPT)
    pass_minute(clock)
    assert TrafficReading.objects.count() == 1


def test_a_reading_is_packed_small_and_comes_back_whole(gateway: FakeGateway) -> None:
    gateway.send("chat", 5_000)
    counts = selectors.counts(selectors.route("chat"))
    document = json.loads(json.dumps(history.packed(counts)))

    assert history.unpacked(document) == counts
    assert len(json.dumps(document)) < 2_500  # two versions, two histograms each: 3.5 MB a day at the most
