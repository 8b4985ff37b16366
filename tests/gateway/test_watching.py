"""Traffic of a gateway on another host: read there while somebody watches here, and told with its age."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from common.fence import Fence
from common.models import Pulse
from gateway import selectors
from gateway.backends import configured
from gateway.backends.fake import FakeGateway
from gateway.errors import CountsPending, GatewayUnreachable
from gateway.models import Gateway, WatchedRoute
from gateway.reconcilers import WatchedRouteReconciler
from gateway.routes import RouteSpec, RouteTarget, WorkerEndpoint
from gateway.traffic import CountsReading
from gateway.watching import STALE_AFTER, WANTED_FOR, watched
from releases.sampling import Sampler
from tests.crash.harness import Clock, worker
from tests.gateway.cast import fake_gateway, set_route, use_gateway
from tests.gateway.test_recording import ANN

pytestmark = pytest.mark.django_db(transaction=True)
STABLE = RouteTarget("chat-1", "chatty:1")


class Hosts:
    """`prague` has the gateway, at `brno` people watch."""

    def __init__(self, settings: Any) -> None:
        self._settings = settings
        self.gateway: FakeGateway = fake_gateway()
        set_route(RouteSpec("chat", STABLE, None, 0), fence=Fence(1, 1), actor=ANN)
        self.gateway.set_target(
            STABLE.name, [WorkerEndpoint("127.0.0.1", 9000)], observed_at=datetime.now(UTC)
        )
        Gateway.objects.update(host="prague")
        Pulse.objects.create(name="sweeper@prague:1", taken=0, host="prague", pid=1, at=timezone.now())
        self.clock = Clock(timezone.now())
        self.watch_at("brno")

    def watch_at(self, host: str) -> None:
        self._settings.SLIPWAY_HOST = host
        configured.forget()

    def prague_works(self) -> int:
        """Run the worker of the host `prague` and return the number of rows it took."""
        self.watch_at("prague")
        use_gateway(self.gateway)
        self.clock.at = max(self.clock.at, timezone.now()) + timedelta(seconds=1.5)
        kernel = worker([WatchedRouteReconciler()], self.clock)
        kernel.host = lambda: "prague"
        taken = kernel.sweep()
        self.watch_at("brno")
        return taken

    def look(self) -> CountsReading:
        return watched(selectors.route("chat"))


@pytest.fixture
def hosts(settings) -> Hosts:
    return Hosts(settings)


def test_who_watches_elsewhere_is_told_what_the_gateway_s_host_reads_and_when(hosts: Hosts) -> None:
    with pytest.raises(CountsPending, match="prague is asked"):
        hosts.look()
    hosts.gateway.send("chat", 30)
    assert hosts.prague_works() == 1
    first = hosts.look()
    assert (first.host, first.counts[STABLE.name].requests) == ("prague", 30)
    assert 0 <= first.age_seconds < STALE_AFTER.total_seconds()
    hosts.gateway.send("chat", 10)
    assert hosts.look().counts == first.counts
    hosts.prague_works()
    assert hosts.look().counts[STABLE.name].requests == 40


def test_where_the_gateway_is_it_is_asked_at_once(hosts: Hosts) -> None:
    hosts.watch_at("prague")
    use_gateway(hosts.gateway)
    assert (hosts.look().host, WatchedRoute.objects.count()) == ("", 0)


def test_nobody_reads_when_nobody_watches(hosts: Hosts) -> None:
    with pytest.raises(CountsPending):
        hosts.look()
    hosts.prague_works()
    hosts.look()
    WatchedRoute.objects.update(wanted_until=timezone.now())
    hosts.prague_works()
    assert WatchedRoute.objects.get().next_at is None
    hosts.look()
    row = WatchedRoute.objects.get()
    assert row.wanted_until > timezone.now() + WANTED_FOR / 2
    assert hosts.prague_works() == 1


def test_what_is_old_is_not_told_as_if_it_were_now(hosts: Hosts) -> None:
    with pytest.raises(CountsPending):
        hosts.look()
    hosts.prague_works()
    WatchedRoute.objects.update(counted_at=timezone.now() - STALE_AFTER - timedelta(seconds=1))
    with pytest.raises(CountsPending):
        hosts.look()
    hosts.gateway.stop()
    hosts.prague_works()
    WatchedRoute.objects.update(counted_at=None)
    with pytest.raises(GatewayUnreachable, match="is stopped"):
        hosts.look()
    WatchedRoute.objects.update(problem="")
    Pulse.objects.all().delete()
    with pytest.raises(GatewayUnreachable, match="prague gives no sign of life"):
        hosts.look()


def test_the_figures_of_a_page_are_those_between_two_readings_there(hosts: Hosts) -> None:
    now = [100.0]
    sampler = Sampler(lambda _: hosts.look(), kept=lambda _: None, clock=lambda: now[0])
    assert sampler.look("chat").problem == "The host prague is asked for it."
    hosts.gateway.send("chat", 10)
    hosts.prague_works()
    now[0] += 1
    sampler.look("chat")
    hosts.gateway.send("chat", 20)
    hosts.prague_works()
    # The same reading twice is no stretch without requests.
    for _ in range(2):
        now[0] += 1
        WatchedRoute.objects.update(counted_at=timezone.now() - timedelta(seconds=now[0] - 102))
        look = sampler.look("chat")
    assert (look.sides[STABLE.name].requests, look.told_by, look.problem) == (20, "prague", "")
    assert look.sides[STABLE.name].rate == pytest.approx(20, rel=0.2)
    assert look.age_seconds == pytest.approx(1, abs=0.5)
