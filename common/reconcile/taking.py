"""One process's part in the work that is due: it takes due rows, and proves that it does.

Sweeper and Celery workers all run a `Taker`. Each takes its share of the rows; what its owner has not taken
within a second is anybody's who has nothing to do. Nothing is queued between processes, so nothing can pile
up, and a claim is a compare-and-set, so it does no harm when two of them take the same row.
"""

import logging
import os
import random
import socket
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from queue import SimpleQueue

from django.db import close_old_connections, connection
from django.db.utils import Error as DatabaseFault
from django.utils import timezone

from common import watchdog
from common.reconcile import pulses
from common.reconcile.due import DueRow
from common.reconcile.engine import Kernel

logger = logging.getLogger(__name__)

EVERY_SECONDS = 0.25
OWN_FOR = timedelta(seconds=1)
"""How long a due row is left to the process whose share it is in."""
STEP_HANGS_AFTER_SECONDS = 25.0
"""More than Celery's limit and than SQLite waits for another writer (20 s), less than a lease (30 s)."""
STRANGERS_STEP_HANGS_AFTER_SECONDS = 60.0
BLOCKED_AFTER_SECONDS = 6.0
"""When all threads are in steps that have not moved for this long, nothing is taken here."""
FINISH_WITHIN_SECONDS = 10.0


class Lane:
    """Threads that take rows side by side; strangers have some of their own, so that they hold up nobody."""

    def __init__(
        self, name: str, threads: int, advance: Callable[[DueRow], int], *, hangs_after: float
    ) -> None:
        self._advance = advance
        self._hangs_after = hangs_after
        self._queue: SimpleQueue[DueRow | None] = SimpleQueue()
        self._in_hand: set[tuple[str, int]] = set()
        self._moved: dict[int, float] = {}
        """By thread at work: when it last came to a checkpoint of the kernel."""
        self._lock = threading.Lock()
        self.taken = 0
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True)
            for number in range(threads)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def put(self, row: DueRow) -> None:
        """Unless it is in hand already."""
        key = (row.kind, row.id)
        with self._lock:
            if key in self._in_hand:
                return
            self._in_hand.add(key)
        self._queue.put(row)

    def idle(self) -> int:
        """Threads without a row."""
        with self._lock:
            return max(len(self._threads) - len(self._in_hand), 0)

    def moved(self) -> None:
        """The thread at work has come to a checkpoint."""
        ident = threading.get_ident()
        if ident in self._moved:
            self._moved[ident] = time.monotonic()

    def is_blocked(self) -> bool:
        now, moved = time.monotonic(), list(self._moved.values())
        return len(moved) >= len(self._threads) and all(now - at > BLOCKED_AFTER_SECONDS for at in moved)

    def hangs(self) -> bool:
        now = time.monotonic()
        return any(now - at > self._hangs_after for at in list(self._moved.values()))

    def finish(self, deadline: float) -> None:
        """End when what is at work is done; what only waits is left to others."""
        while not self._queue.empty():
            self._queue.get()
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        ident = threading.get_ident()
        while (row := self._queue.get()) is not None:
            self._moved[ident] = time.monotonic()
            steps = 0
            try:
                steps = self._advance(row)
            except Exception:
                logger.exception("Advancing %s %s failed", row.kind, row.id)
                connection.close()
            finally:
                del self._moved[ident]
                with self._lock:
                    self._in_hand.discard((row.kind, row.id))
                    self.taken += steps


class Taker:
    """Takes due rows from `start` to `stop`. `role`: who does so, for people (`sweeper`, `worker`)."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        role: str,
        threads: int,
        strangers_threads: int = 0,
        every_seconds: float = EVERY_SECONDS,
    ) -> None:
        """Without `strangers_threads`, rows whose steps wait for servers of others are left to others."""
        self._kernel = kernel
        self._every_seconds = every_seconds
        self._lane = Lane(role, threads, self._advance, hangs_after=STEP_HANGS_AFTER_SECONDS)
        self._lanes = [self._lane]
        self._strangers: Lane | None = None
        if strangers_threads:
            self._strangers = Lane(
                "strangers",
                strangers_threads,
                self._advance,
                hangs_after=STRANGERS_STEP_HANGS_AFTER_SECONDS,
            )
            self._lanes.append(self._strangers)
        self._sign = pulses.Sign(role, socket.gethostname(), os.getpid())
        self._proven_at: datetime | None = None
        self._share = pulses.Share(0, 1)
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin, in threads of its own."""
        self._kernel.checkpoint = self._moved
        for lane in self._lanes:
            lane.start()
        for work in (self._take_for_ever, self._pulse_for_ever):
            threading.Thread(target=work, name=work.__name__.strip("_"), daemon=True).start()

    def stop(self, *, within_seconds: float = FINISH_WITHIN_SECONDS) -> None:
        """End; steps at work have this long to be finished."""
        watchdog.leave()
        self._stopped.set()
        deadline = time.monotonic() + within_seconds
        for lane in self._lanes:
            lane.finish(deadline)
        try:
            pulses.leave(self._sign, self.work)
        except DatabaseFault as error:
            logger.warning("The last sign of life is not noted: %s", error)
        finally:
            connection.close()

    @property
    def work(self) -> pulses.Work:
        """What it has done since the start."""
        return pulses.Work(sum(lane.taken for lane in self._lanes), self._kernel.leases_run_out)

    def _advance(self, row: DueRow) -> int:
        close_old_connections()
        return self._kernel.advance(row.kind, row.id, fence=row.fence)

    def _moved(self, _checkpoint: str) -> None:
        for lane in self._lanes:
            lane.moved()

    def _take_for_ever(self) -> None:
        while not self._stopped.is_set():
            try:
                self._take()
            except DatabaseFault:
                logger.exception("The database does not answer; trying again")
                connection.close()
            if any(lane.hangs() for lane in self._lanes):
                logger.error("A step has not moved for too long; this process makes room for another")
                os._exit(watchdog.REPLACE_ME)
            if not self._stopped.is_set():
                watchdog.pulse()
            self._stopped.wait(self._every_seconds)

    def _take(self) -> None:
        close_old_connections()
        late = []
        for row in self._kernel.due(own_for=OWN_FOR):
            if self._kernel.reconciler(row.kind).waits_for_strangers:
                if self._strangers is not None:
                    self._strangers.put(row)
            elif self._share.holds(row):
                self._lane.put(row)
            elif row.is_anybodys:
                late.append(row)
        # Of others' no more than can be taken at once, and any of them: else all would try the same.
        random.shuffle(late)
        for row in late[: self._lane.idle()]:
            self._lane.put(row)
        if not self._lane.is_blocked():
            self._proven_at = timezone.now()

    def _pulse_for_ever(self) -> None:
        while not self._stopped.is_set():
            try:
                close_old_connections()
                if self._proven_at is not None:
                    self._share = pulses.give(self._sign, at=self._proven_at, work=self.work)
            except Exception:
                # Without this thread a process that takes what is due would be taken for one that hangs.
                logger.exception("No sign of life can be given; trying again")
                connection.close()
            self._stopped.wait(pulses.EVERY_SECONDS)
