"""Every way in which workers can die or fall asleep, as a loop: kernels whose checkpoints crash or pause."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from common.reconcile import Kernel, Reconciler

LEASE_AND_A_BIT = timedelta(seconds=31)


class Crash(BaseException):
    """The process is gone; nothing of it runs any more, no except clause either."""


class Clock:
    def __init__(self, at: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self.at = at

    def __call__(self) -> datetime:
        return self.at

    def pass_(self, span: timedelta) -> None:
        self.at += span


class Checkpoints:
    """Counts the points at which a worker can die, and does `then` at the `at`-th (1-based; 0 never)."""

    def __init__(self, at: int = 0, then: Callable[[], None] | None = None, *, outside: bool = False) -> None:
        """`outside`: of transactions alone, where others can take steps meanwhile."""
        self.outside = outside
        self.passed = 0
        self.names: list[str] = []
        self.at = at
        self.then = then

    def __call__(self, name: str) -> None:
        if self.outside and name == "writing":
            return
        self.passed += 1
        self.names.append(name)
        if self.passed == self.at and self.then:
            self.then()


def die() -> None:
    raise Crash


def worker(
    reconcilers: list[Reconciler],
    clock: Clock,
    checkpoints: Checkpoints | None = None,
    kernel: type[Kernel] = Kernel,
) -> Kernel:
    one = kernel(clock=clock, checkpoint=checkpoints or Checkpoints())
    for reconciler in reconcilers:
        one.register(reconciler)
    return one


def dies(kernel: Kernel, clock: Clock) -> bool:
    """Sweep once; whether the worker has died of it, and its lease has run out since."""
    try:
        kernel.sweep()
    except Crash:
        clock.pass_(LEASE_AND_A_BIT)
        return True
    return False


def run_until_rest(
    kernel: Kernel, clock: Clock, *, tick: timedelta = timedelta(seconds=1), ticks: int = 400
) -> None:
    """Sweep, letting time pass, until no row is due any more."""
    quiet = 0
    for _ in range(ticks):
        quiet = 0 if kernel.sweep() else quiet + 1
        if quiet > LEASE_AND_A_BIT / tick:
            return
        clock.pass_(tick)
    raise AssertionError("The rows never came to rest")


def crashes(limit: int = 1000) -> Iterator[int]:
    """1, 2, 3 ... : the caller stops when a run passes fewer checkpoints."""
    yield from range(1, limit)
