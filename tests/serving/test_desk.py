"""Slots go to those who wait in the order in which they came, and none is ever lost."""

import asyncio
import random

import pytest

from serving.desk import Desk, Progress, RequestOutcome
from serving.openai import RequestFault
from serving.protocol import Counters, WorkerState


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Guest:
    """Someone who takes a slot and keeps it until told to go."""

    def __init__(self, desk: Desk, name: str, seated: list[str]) -> None:
        self._leave = asyncio.Event()
        self.task = asyncio.create_task(self._visit(desk, name, seated))

    async def _visit(self, desk: Desk, name: str, seated: list[str]) -> None:
        async with desk.slot():
            seated.append(name)
            await self._leave.wait()

    async def leave(self) -> None:
        self._leave.set()
        await self.task


async def test_slots_are_given_in_the_order_of_coming() -> None:
    desk, seated = Desk(slots=1, queue_limit=5), []  # type: ignore[var-annotated]
    guests = [Guest(desk, name, seated) for name in "abc"]
    await turn()
    assert (seated, desk.in_flight, desk.queue_depth) == (["a"], 1, 2)
    for guest in guests:
        await guest.leave()
    assert seated == ["a", "b", "c"]
    assert (desk.in_flight, desk.queue_depth) == (0, 0)


async def test_a_full_queue_refuses_with_an_estimate_of_the_wait() -> None:
    clock = Clock()
    desk = Desk(slots=1, queue_limit=1, clock=clock)
    async with desk.slot():
        clock.now += 4.0
    seated: list[str] = []
    guests = [Guest(desk, name, seated) for name in "ab"]
    await turn()
    with pytest.raises(RequestFault) as refusal:
        async with desk.slot():
            pytest.fail("there was no slot to have")
    assert refusal.value.status == 429
    assert refusal.value.retry_after_seconds == 8
    for guest in guests:
        await guest.leave()


async def test_one_who_leaves_the_queue_is_passed_over() -> None:
    seated: list[str] = []
    desk = Desk(slots=1, queue_limit=5)
    first, second, third = (Guest(desk, name, seated) for name in "abc")
    await turn()
    second.task.cancel()
    await turn()
    assert desk.queue_depth == 1
    await first.leave()
    await turn()
    assert seated == ["a", "c"]
    await third.leave()
    assert desk.in_flight == 0


async def test_a_slot_offered_to_one_who_is_just_leaving_goes_to_the_next() -> None:
    seated: list[str] = []
    desk = Desk(slots=1, queue_limit=5)
    first, second, third = (Guest(desk, name, seated) for name in "abc")
    await turn()
    first._leave.set()
    while not first.task.done():
        await asyncio.sleep(0)
        second.task.cancel()
    await turn()
    assert seated[-1] == "c"
    await third.leave()
    assert (desk.in_flight, desk.queue_depth) == (0, 0)


@pytest.mark.parametrize("seed", range(20))
async def test_no_slot_is_lost_however_guests_come_and_go(seed: int) -> None:
    chance = random.Random(seed)
    seated: list[str] = []
    desk = Desk(slots=3, queue_limit=4)
    guests: list[Guest] = []
    for step in range(200):
        guests = [guest for guest in guests if not guest.task.done()]
        if guests and chance.random() < 0.55:
            guest = chance.choice(guests)
            if chance.random() < 0.5:
                guest.task.cancel()
            else:
                guest._leave.set()
        else:
            guests.append(Guest(desk, str(step), seated))
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        assert 0 <= desk.in_flight <= 3
        assert desk.queue_depth <= 4
    for guest in guests:
        guest._leave.set()
    await asyncio.gather(*(guest.task for guest in guests), return_exceptions=True)
    assert (desk.in_flight, desk.queue_depth) == (0, 0)


async def test_a_held_slot_is_busy() -> None:
    clock = Clock()
    desk = Desk(slots=2, queue_limit=0, clock=clock)
    async with desk.slot():
        clock.now = 5.0
    clock.now = 10.0
    assert desk.busy == pytest.approx(0.25)


def test_outcomes_are_counted_once_each() -> None:
    clock = Clock()
    desk = Desk(slots=1, queue_limit=0, clock=clock)
    seen: list[RequestOutcome] = []
    desk.observe(seen.append)
    for code, broke_off in (
        (200, False),
        (200, True),
        (500, False),
        (429, False),
        (503, False),
        (499, False),
    ):
        progress = Progress(clock)
        clock.now += 0.010
        progress.produced(1)
        clock.now += 0.040
        progress.produced(2)
        progress.used(prompt_tokens=5, completion_tokens=3)
        desk.record(
            RequestOutcome(route="/r", code=code, seconds=0.05, broke_off=broke_off, progress=progress)
        )
    assert desk.counters == Counters(requests=5, errors=3, refused=2, prompt_tokens=30, completion_tokens=18)
    assert desk.ttft is not None
    assert desk.tpot is not None
    assert (desk.ttft.count, desk.ttft.p50_ms, desk.tpot.p50_ms) == (1, 10.0, 20.0)
    assert len(seen) == 6


def test_a_worker_that_is_leaving_does_not_become_ready() -> None:
    desk = Desk(slots=1, queue_limit=0)
    desk.drain()
    desk.open()
    assert desk.state is WorkerState.DRAINING


def test_a_failed_worker_keeps_its_reason_while_it_leaves() -> None:
    desk = Desk(slots=1, queue_limit=0)
    desk.fail("no weights")
    desk.drain()
    assert (desk.state, desk.reason) == (WorkerState.FAILED, "no weights")
