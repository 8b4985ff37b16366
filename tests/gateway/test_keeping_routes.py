"""The watch: a gateway that lost its home, was down, or is slow gets its routes back."""

from datetime import UTC, datetime

import pytest

from common.actor import Actor
from common.fence import Fence
from common.models import AuditRecord
from gateway import reconcilers, selectors
from gateway.backends.fake import FakeGateway
from gateway.errors import GatewayError, GatewayUnreachable
from gateway.history import minute_of
from gateway.models import Gateway, Route
from gateway.reconcilers import GatewayReconciler
from gateway.routes import RouteSpec, RouteTarget
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, Clock, Crash, die, worker
from tests.gateway.cast import fake_gateway, reweigh, set_route

ANN = Actor(name="ann", user_id=1, via="web")
STABLE, CANARY = RouteTarget("chat-1", "chatty:1"), RouteTarget("chat-2", "chatty:2")
BOTH = RouteSpec("chat", STABLE, CANARY, 10)

pytestmark = pytest.mark.django_db(transaction=True)


class Home:
    """The directory of a gateway that can lose all it knows."""

    gateway: FakeGateway

    def lose(self) -> None:
        self.gateway = fake_gateway()


@pytest.fixture
def home(gateway: FakeGateway) -> Home:
    one = Home()
    one.gateway = gateway
    return one


@pytest.fixture
def clock() -> Clock:
    return Clock()


def look(clock: Clock, checkpoints: Checkpoints | None = None) -> Gateway:
    """Reconcile the routes once."""
    clock.pass_(reconcilers.LOOK_EVERY)
    Gateway.objects.update(next_at=clock(), recorded_minute=minute_of(clock()))
    worker([GatewayReconciler()], clock, checkpoints).sweep()
    return Gateway.objects.get()


def test_a_gateway_that_lost_its_home_gets_its_routes_back(home: Home, clock: Clock) -> None:
    set_route(BOTH, fence=Fence(1, 3), actor=ANN)
    set_route(RouteSpec("other", STABLE, None, 0), fence=Fence(0, 1), actor=ANN)
    home.lose()
    look(clock)
    assert home.gateway.desired_route("chat") == BOTH
    assert home.gateway.desired_route("other") == RouteSpec("other", STABLE, None, 0)
    assert AuditRecord.objects.filter(action="route.set").count() == 2


def test_a_gateway_that_stays_away_is_told_in_the_log_once(
    home: Home, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="gateway.reconcilers")
    set_route(BOTH, fence=Fence(1, 1), actor=ANN)
    home.gateway.stop()
    for _ in range(3):
        look(clock)
    home.gateway.start()
    for _ in range(2):
        look(clock)
    said = [record.getMessage() for record in caplog.records if "refreshed" in record.getMessage()]
    assert len(said) == 2
    assert "cannot be refreshed" in said[0]
    assert "is refreshed again" in said[1]


def test_what_was_asked_while_it_was_down_is_applied_when_it_is_back(home: Home, clock: Clock) -> None:
    set_route(BOTH, fence=Fence(1, 1), actor=ANN)
    home.gateway.stop()
    with pytest.raises(GatewayUnreachable):
        reweigh(60, fence=Fence(1, 2), actor=ANN)
    down = look(clock)
    assert not down.is_healthy
    assert down.next_at == clock() + reconcilers.RETRY_AFTER
    home.gateway.start()
    up = look(clock)
    assert up.is_healthy
    row = selectors.route("chat")
    assert row.applied_at
    assert row.problem == ""
    assert home.gateway.desired_route("chat") == RouteSpec("chat", STABLE, CANARY, 60)


def test_a_removal_that_it_missed_is_made_up_for(home: Home, clock: Clock) -> None:
    set_route(BOTH, fence=Fence(1, 1), actor=ANN)
    Route.objects.update(removed_at=datetime.now(UTC), applied_at=None)
    look(clock)
    assert home.gateway.desired_route("chat") is None
    assert Route.objects.get().applied_at


def test_all_being_well_nothing_is_written_to_the_gateway(
    home: Home, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_route(BOTH, fence=Fence(1, 1), actor=ANN)
    monkeypatch.setattr(home.gateway, "set_route", None)
    row = look(clock)
    assert row.is_healthy
    assert row.next_at == clock() + reconcilers.LOOK_EVERY


def test_one_route_that_cannot_be_applied_does_not_stop_the_others(
    home: Home, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        set_route(RouteSpec(name, STABLE, None, 0), fence=Fence(0, 1), actor=ANN)
    home.lose()
    apply = home.gateway.set_route

    def poisoned(spec: RouteSpec, *, fence: Fence) -> None:
        if spec.name == "a":
            raise GatewayError("a is poisoned")
        apply(spec, fence=fence)

    monkeypatch.setattr(home.gateway, "set_route", poisoned)
    row = look(clock)
    assert home.gateway.desired_route("b")
    assert home.gateway.desired_route("c")
    assert selectors.route("a").problem == "a is poisoned"
    assert row.stuck_at is None


def test_a_wish_of_a_later_writer_in_the_gateway_is_left_alone(home: Home, clock: Clock) -> None:
    set_route(BOTH, fence=Fence(1, 1), actor=ANN)
    later = RouteSpec("chat", STABLE, CANARY, 99)
    home.gateway.set_route(later, fence=Fence(2, 1))
    look(clock)
    assert home.gateway.desired_route("chat") == later


def test_the_watch_survives_a_death_at_any_point(home: Home, clock: Clock) -> None:
    set_route(BOTH, fence=Fence(1, 1), actor=ANN)
    for point in range(1, 100):
        home.lose()
        checkpoints = Checkpoints(at=point, then=die)
        try:
            look(clock, checkpoints)
        except Crash:
            clock.pass_(LEASE_AND_A_BIT)
            look(clock)
            assert home.gateway.desired_route("chat") == BOTH
            continue
        break
    assert point > 5
    assert Gateway.objects.get().stuck_at is None


def test_what_the_gateway_lacks_is_written_down_and_kept_while_it_cannot_be_asked(
    home: Home, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.gateway.lacks = "Its class rewrites no paths."
    assert look(clock).lacks == "Its class rewrites no paths."

    def cut() -> str:
        raise GatewayUnreachable("cut")

    monkeypatch.setattr(home.gateway, "lacking", cut)
    assert look(clock).lacks == "Its class rewrites no paths."
    monkeypatch.undo()
    home.gateway.lacks = ""
    assert look(clock).lacks == ""
