"""Reading a service's traffic for those who watch it: seldom, and without ever failing."""

import threading

import pytest

from gateway.errors import GatewayUnreachable, UnknownRoute
from gateway.traffic import CountsReading
from releases.sampling import FORGET_AFTER_SECONDS, GAP_SECONDS, KEEP_SECONDS, Sampler
from tests.releases.test_traffic import counts


class Gateway:
    """Ten requests more at each reading; `error` is raised instead while it is set."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.error: Exception | None = None

    def __call__(self, service: str) -> CountsReading:
        self.asked.append(service)
        if self.error is not None:
            raise self.error
        return CountsReading({f"{service}-r1": counts(10 * len(self.asked), in_flight=len(self.asked))})


def nothing(_: str) -> None:
    """No reading was kept before anybody watched."""


class Time:
    """Both clocks: `now` seconds after the start."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def gateway() -> Gateway:
    return Gateway()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def sampler(gateway: Gateway, time: Time) -> Sampler:
    return Sampler(gateway, kept=nothing, clock=time, wall_clock=lambda: time.now + 1e9)


def test_several_pages_of_one_service_cost_one_question(
    sampler: Sampler, gateway: Gateway, time: Time
) -> None:
    first = sampler.look("chat")
    time.now += GAP_SECONDS / 2
    assert sampler.look("chat") is first
    time.now += GAP_SECONDS
    second = sampler.look("chat")

    assert gateway.asked == ["chat", "chat"]
    assert (second.at - first.at, second.sides["chat-r1"].requests) == (pytest.approx(1.2), 10)


def test_services_are_watched_apart(sampler: Sampler, gateway: Gateway) -> None:
    sampler.look("chat")
    sampler.look("docs")

    assert gateway.asked == ["chat", "docs"]
    assert [set(look.sides) for look in sampler.seen("docs")] == [{"docs-r1"}]


def test_what_was_seen_is_told_without_another_question(
    sampler: Sampler, gateway: Gateway, time: Time
) -> None:
    assert sampler.seen("chat") == ()
    looks = []
    for _ in range(3):
        looks.append(sampler.look("chat"))
        time.now += 1

    assert list(sampler.seen("chat")) == looks
    assert len(gateway.asked) == 3


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (UnknownRoute("chat has no route."), "The gateway has no route to this service yet."),
        (GatewayUnreachable("connection refused"), "The gateway does not answer: connection refused"),
    ],
)
def test_a_gateway_that_fails_is_a_problem_to_show_and_not_an_error(
    sampler: Sampler, gateway: Gateway, time: Time, error: Exception, words: str
) -> None:
    sampler.look("chat")
    time.now += 1
    gateway.error = error
    look = sampler.look("chat")
    assert (look.sides, look.problem) == ({}, words)

    time.now += 1
    gateway.error = None
    again = sampler.look("chat")
    assert again.problem == ""
    assert again.sides["chat-r1"].requests == 20  # since before the failure


def test_a_gateway_that_fails_is_not_asked_again_at_once(
    sampler: Sampler, gateway: Gateway, time: Time
) -> None:
    gateway.error = GatewayUnreachable("connection refused")
    sampler.look("chat")
    sampler.look("chat")

    assert len(gateway.asked) == 1


def test_looks_are_kept_for_a_while(sampler: Sampler, time: Time) -> None:
    sampler.look("chat")
    time.now += KEEP_SECONDS / 2
    middle = sampler.look("chat")
    time.now += KEEP_SECONDS / 2 + 1
    last = sampler.look("chat")

    assert list(sampler.seen("chat")) == [middle, last]


def test_a_service_that_nobody_watches_any_more_is_forgotten(sampler: Sampler, time: Time) -> None:
    sampler.look("chat")
    time.now += FORGET_AFTER_SECONDS + 1
    sampler.look("docs")

    assert sampler.seen("chat") == ()
    assert len(sampler.seen("docs")) == 1


def test_a_slow_answer_about_one_service_keeps_nobody_from_another(time: Time) -> None:
    asked, answer = threading.Event(), threading.Event()

    def read(service: str) -> CountsReading:
        if service == "slow":
            asked.set()
            answer.wait(60)
        return CountsReading({})

    sampler = Sampler(read, kept=nothing, clock=time)
    waiting = threading.Thread(target=sampler.look, args=("slow",))
    waiting.start()
    assert asked.wait(60)

    assert sampler.look("quick").problem == ""
    assert sampler.seen("slow") == ()
    answer.set()
    waiting.join(60)
    assert len(sampler.seen("slow")) == 1
