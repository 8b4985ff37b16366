"""Many releases that look at once ask the gateway once, and never get what was counted too early."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from gateway.backends.envoy.readings import EnvoyReading, Targets
from gateway.backends.envoy.shared import FRESH_FOR, WANTED_FOR, SharedReading
from gateway.errors import GatewayUnreachable
from tests.crash.harness import Clock

A_BIT = timedelta(milliseconds=10)
LONG_AGO = timedelta(hours=1)


class Gateway:
    def __init__(self) -> None:
        self.clock = Clock()
        self.asked: list[set[str]] = []
        self.runs = True
        self.shared = SharedReading(self.read, self.clock)

    def read(self, routes: Mapping[str, Targets]) -> EnvoyReading:
        self.asked.append(set(routes))
        if not self.runs:
            raise GatewayUnreachable("hung up")
        return EnvoyReading(self.clock(), dict(routes), "1", {})

    def of(self, route: str, *, since: timedelta = LONG_AGO, targets: Targets = ("a", "b")) -> EnvoyReading:
        self.clock.pass_(A_BIT)
        return self.shared.of(route, targets, taken_after=self.clock() - since)


@pytest.fixture
def gateway() -> Gateway:
    return Gateway()


def test_those_who_look_again_are_told_of_by_one_reading(gateway: Gateway) -> None:
    for route in ("chat", "docs"):
        gateway.of(route)
    gateway.clock.pass_(FRESH_FOR)
    gateway.asked.clear()

    assert gateway.of("docs") is gateway.of("chat")
    assert gateway.asked == [{"chat", "docs"}]


def test_nobody_gets_what_was_read_before_his_last_look(gateway: Gateway) -> None:
    first = gateway.of("chat")
    assert gateway.of("chat", since=A_BIT / 2) is not first
    assert len(gateway.asked) == 2


def test_nobody_gets_what_is_old(gateway: Gateway) -> None:
    first = gateway.of("chat")
    gateway.clock.pass_(FRESH_FOR)
    assert gateway.of("chat") is not first


def test_a_route_that_leads_elsewhere_is_read_anew(gateway: Gateway) -> None:
    gateway.of("chat")
    assert gateway.of("chat", targets=("b", "c")).routes == {"chat": ("b", "c")}


def test_who_looks_no_more_is_read_no_more(gateway: Gateway) -> None:
    gateway.of("chat")
    gateway.clock.pass_(WANTED_FOR)
    gateway.of("docs")
    assert gateway.asked[-1] == {"docs"}


def test_a_gateway_that_is_silent_is_waited_for_once_by_all(gateway: Gateway) -> None:
    gateway.runs = False
    for route in ("chat", "docs"):
        with pytest.raises(GatewayUnreachable):
            gateway.of(route)
    assert len(gateway.asked) == 1
    gateway.runs = True
    gateway.clock.pass_(FRESH_FOR)
    assert gateway.of("docs").at == gateway.clock()


def test_a_reading_that_takes_long_is_shared_for_longer(gateway: Gateway) -> None:
    read = gateway.shared._read

    def slowly(routes: Mapping[str, Targets]) -> EnvoyReading:
        reading = read(routes)
        gateway.clock.pass_(FRESH_FOR / 5)
        return reading

    gateway.shared._read = slowly
    first = gateway.of("chat")
    gateway.clock.pass_(FRESH_FOR)
    assert gateway.of("chat") is first
