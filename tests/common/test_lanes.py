"""What waits for one outside system never delays what waits for another, nor what waits for none."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from common import events
from common.reconcile import (
    EPOCH,
    Due,
    DueRow,
    Kernel,
    Reconciler,
    Step,
    StepOutcome,
    lane_at,
    lanes,
    pulses,
    rest,
    taking,
)
from common.reconcile.lanes import Lanes
from common.reconcile.pulses import takers
from common.reconcile.steps import Operation
from common.reconcile.taking import StepWorker
from tests.crash.harness import Clock, worker
from tests.patience import eventually
from tests.toys.models import Parcel

DEAD, ALIVE = "host:dead.example", "host:alive.example"


class Ask(Step[Parcel]):
    """Asks the host that the parcel's state names."""

    name = "ask"

    def __init__(self, ask: Callable[[Parcel], None]) -> None:
        self._ask = ask

    def observe(self, row: Parcel, operation: Operation) -> None:
        self._ask(row)

    def settle(self, row: Parcel, seen: None, now: datetime) -> StepOutcome:
        return rest(save={"state": "posted"})


class Hosts(Reconciler[Parcel]):
    """Each parcel asks one host; a dead one answers when `go_on` is set."""

    model = Parcel

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.asked = Counter[str]()
        self.hangs = Counter({DEAD: 1_000_000})
        """How often a host will not answer."""

    def lane_of(self, row: Parcel) -> str:
        return row.state if row.state.startswith("host:") else ""

    def next_step(self, row: Parcel, now: datetime) -> Step[Parcel] | None:
        return None if row.state == "posted" else Ask(self.ask)

    def ask(self, row: Parcel) -> None:
        self.asked[row.state] += 1
        if self.asked[row.state] <= self.hangs[row.state]:
            self.go_on.wait(60)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    hosts = Hosts()
    yield hosts
    hosts.go_on.set()


@pytest.fixture
def clock() -> Clock:
    return Clock(timezone.now())


@pytest.fixture
def kernel(hosts: Hosts, clock: Clock) -> Kernel:
    return worker([hosts], clock)


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The statuses with which the process would have ended."""
    statuses: list[int] = []
    monkeypatch.setattr("os._exit", statuses.append)
    return statuses


@pytest.fixture
def taker(
    kernel: Kernel, hosts: Hosts, ended: list[int], monkeypatch: pytest.MonkeyPatch
) -> Iterator[StepWorker]:
    monkeypatch.setattr(pulses, "EVERY_SECONDS", 0.05)
    one = StepWorker(kernel, role="sweeper", threads=1, outside_threads=4, every_seconds=0.02)
    yield one
    hosts.go_on.set()
    one.stop(within_seconds=5)


def parcel(kernel: Kernel, host: str, *, late: float = 0) -> Parcel:
    return Parcel.objects.create(state=host, next_at=kernel.clock() - timedelta(seconds=late))


def is_posted(parcel: Parcel) -> bool:
    return Parcel.objects.get(pk=parcel.pk).state == "posted"


@pytest.mark.django_db(transaction=True)
def test_a_dead_host_delays_neither_another_one_nor_us(
    kernel: Kernel, hosts: Hosts, taker: StepWorker
) -> None:
    """Although more of its rows are due, and for longer, than are found in one look."""
    due_at = kernel.clock() - timedelta(minutes=1)
    Parcel.objects.bulk_create(Parcel(state=DEAD, next_at=due_at, lane=DEAD) for _ in range(150))
    taker.start()
    eventually(lambda: hosts.asked[DEAD] == taking.PER_LANE)

    others = [parcel(kernel, ALIVE), parcel(kernel, "new")]
    eventually(lambda: all(map(is_posted, others)))
    assert hosts.asked[DEAD] == taking.PER_LANE


@pytest.mark.django_db(transaction=True)
def test_a_step_is_only_taken_in_the_lane_of_what_it_waits_for(kernel: Kernel, hosts: Hosts) -> None:
    row = parcel(kernel, ALIVE)
    rung: list[Due] = []
    events.subscribe(Due, rung.append)
    assert kernel.advance("toys.parcel", row.pk, lane="") == 0
    row.refresh_from_db()
    assert (row.lane, row.lease_until, row.attempts, row.next_at) == (ALIVE, EPOCH, 0, kernel.clock())
    assert rung == [Due("toys.parcel", row.pk, ALIVE)]
    assert not hosts.asked

    assert kernel.advance("toys.parcel", row.pk, lane=DEAD) == 0
    assert kernel.advance("toys.parcel", row.pk, lane=ALIVE) == 1
    assert hosts.asked == {ALIVE: 1}


@pytest.mark.django_db(transaction=True)
def test_a_wish_does_not_wait_in_the_lane_that_it_may_lead_out_of(kernel: Kernel) -> None:
    row = parcel(kernel, "new")
    Parcel.objects.update(lane=DEAD, next_at=None)
    row.refresh_from_db()
    kernel.wake(row)
    assert [one.lane for one in kernel.due()] == [DEAD]
    kernel.wake(row, wants_return=True)
    assert [one.lane for one in kernel.due()] == [""]


@pytest.mark.django_db(transaction=True)
def test_a_thread_that_hangs_is_given_up_and_its_lane_told(
    kernel: Kernel,
    hosts: Hosts,
    clock: Clock,
    taker: StepWorker,
    ended: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Hosts, "lease", timedelta(seconds=0.5))
    monkeypatch.setattr(taking, "MOST_GIVEN_UP", 100)
    hosts.hangs[DEAD] = taking.PER_LANE  # every thread that the lane may have; then it answers again
    rows = [parcel(kernel, DEAD) for _ in range(taking.PER_LANE)]
    taker.start()
    eventually(lambda: takers()["sweeper"].hung == {DEAD: 1})
    assert not any(map(is_posted, rows))

    clock.pass_(timedelta(seconds=1))
    eventually(lambda: all(map(is_posted, rows)))
    assert takers()["sweeper"].hung == {DEAD: 1}
    assert kernel.leases_run_out >= taking.PER_LANE

    hosts.go_on.set()
    eventually(lambda: not takers()["sweeper"].hung)
    assert not ended


@pytest.mark.django_db(transaction=True)
def test_a_process_in_which_too_many_threads_hang_gives_way(
    kernel: Kernel, hosts: Hosts, taker: StepWorker, ended: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hosts, "lease", timedelta(seconds=0.2))
    monkeypatch.setattr(taking, "MOST_GIVEN_UP", 3)
    for number in range(3):
        hosts.hangs[f"host:{number}"] = 1
        parcel(kernel, f"host:{number}")
    taker.start()
    eventually(lambda: ended)
    assert ended[0] == taking.watchdog.REPLACE_ME


class Gate:
    """Threads wait here until their row is let through."""

    def __init__(self) -> None:
        self.inside: list[int] = []
        self._let: dict[int, threading.Event] = {}

    def advance(self, row: DueRow) -> int:
        go_on = self._let[row.id] = threading.Event()
        self.inside.append(row.id)
        go_on.wait(60)
        return 1

    def let(self, number: int) -> None:
        self._let[number].set()


@pytest.mark.django_db(transaction=True)
def test_all_lanes_together_have_a_bound_and_one_without_a_thread_comes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lanes, "IDLE_SECONDS", 0.05)
    gate = Gate()
    all_of_them = Lanes("bound", gate.advance, threads=4, per_lane=2, reserved=2, limit_of=lambda _: 60.0)

    def put(number: int, lane: str) -> None:
        all_of_them.put(DueRow("toys.parcel", number, 0, False, lane))

    at_work = [1, 2, 2, 3, 4, 4, 4]
    for number, lane in enumerate(["a", "a", "a", "b", "c", "d", "b"]):
        put(number, lane)
        put(number, lane)  # it is in hand already
        eventually(lambda number=number: len(gate.inside) == at_work[number])
    assert gate.inside == [0, 1, 3, 4]
    assert all_of_them.full() == ["a", "d", "b"]
    assert all_of_them.room("e") == 0

    # Lanes without a thread, before the one that waits the longest but has some.
    for over, then in ((3, 5), (0, 6)):
        gate.let(over)
        eventually(lambda then=then: gate.inside[-1] == then)

    for number in (1, 4, 5, 6):
        gate.let(number)
    eventually(lambda: len(gate.inside) == 7)
    gate.let(2)
    eventually(lambda: not [one for one in threading.enumerate() if one.name.startswith("bound-")])
    assert (all_of_them.taken, all_of_them.full()) == (7, [])


@pytest.mark.parametrize(
    ("url", "lane"),
    [
        ("https://huggingface.co", "hub:huggingface.co"),
        ("https://me:secret@Hooks.example.org:8443/path/of/secrets?q=1", "hub:hooks.example.org:8443"),
        ("http://[::1]:80/", "hub:[::1]:80"),
    ],
)
def test_a_lane_is_named_by_host_and_port_alone(url: str, lane: str) -> None:
    assert lane_at("hub", url) == lane
