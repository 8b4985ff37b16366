"""One process's part in the work that is due: it takes due rows, and proves that it does.

Sweeper and Celery workers all run a `StepWorker`. Each takes its share of the rows; what its owner has not
taken within a second is anybody's who has nothing to do. Nothing is queued between processes, so nothing can
pile up, and a claim is a compare-and-set, so it does no harm when two of them take the same row.

All of them take what waits for outside systems, too, in lanes of their own (`common.reconcile.lanes`): with a
broker or without, a row is taken by whoever is there, and each process gives one outside system two threads
at most. A step that outlasts its lease there is given up with its thread, and the lane is told as hung; of
such threads a process keeps a few. A step of our own that hangs makes it give way at once.
"""

import logging
import os
import random
import socket
import threading
import time
from dataclasses import asdict
from datetime import datetime, timedelta

from django.db import close_old_connections, connection
from django.db.utils import Error as DatabaseFault

from common import clock, tracing, watchdog
from common.database.connections import pool_figures
from common.reconcile import lanes, pulses, silent_hosts
from common.reconcile.due import DueRow
from common.reconcile.engine import Kernel
from common.reconcile.lanes import Lanes

logger = logging.getLogger(__name__)

EVERY_SECONDS = 0.25
"""The shortest between two looks."""
QUIET_SECONDS = 1.0
"""The longest, for rows that others have changed and whose doorbell nobody heard: what falls due is known so
long ahead, and a step that ended here brings the next look forward."""
OWN_FOR = timedelta(seconds=1)
"""How long a due row is left to the process whose share it is in."""
STEP_HANGS_AFTER_SECONDS = 25.0
"""More than Celery's limit and than SQLite waits for another writer (20 s), less than a lease (30 s)."""
OUTSIDE_THREADS = 16
PER_LANE = 2
MOST_GIVEN_UP = 4
"""Threads that hang in outside lanes, before their process gives way to a new one."""
BLOCKED_AFTER_SECONDS = 6.0
"""When all threads are in steps that have not moved for this long, nothing is taken here."""
FINISH_WITHIN_SECONDS = 10.0
GIVE_WAY_WITHIN_SECONDS = 4.0
"""Less than the watchdog's patience."""

_at_work: "list[StepWorker]" = []


def offer(row: DueRow) -> bool:
    """Take it in its lane in this process, beside the caller; False when nobody does so here."""
    for taker in _at_work:
        taker.put(row)
    return bool(_at_work)


class StepWorker:
    """Takes due rows from `start` to `stop`. `role`: who does so, for people (`sweeper`, `worker`)."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        role: str,
        threads: int,
        outside_threads: int = OUTSIDE_THREADS,
        every_seconds: float = EVERY_SECONDS,
    ) -> None:
        """`threads`: for what only we answer for; `outside_threads`: for all other lanes together.
        `every_seconds`: the shortest between two looks at what is due.
        """
        self._kernel = kernel
        self._every_seconds = every_seconds
        self._has_news = threading.Event()
        """A row was let go of: when its next step is due, the next look will know."""
        self._ours = Lanes(
            role,
            self._advance,
            threads=threads,
            per_lane=threads,
            limit_of=lambda _: STEP_HANGS_AFTER_SECONDS,
            let_go=self._has_news.set,
        )
        self._outside = Lanes(
            f"{role}-outside",
            self._advance,
            threads=outside_threads,
            per_lane=PER_LANE,
            # The lease was renewed when the thread last moved, or before: the row is anybody's by then.
            limit_of=lambda row: kernel.reconciler(row.kind).lease.total_seconds(),
            reserved=outside_threads // 2,
            let_go=self._has_news.set,
        )
        self._sign = pulses.ProcessIdentity(role, kernel.host(), os.getpid(), socket.gethostname())
        self._proven_at: datetime | None = None
        self._share = pulses.RowShare(0, 1)
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin, in threads of its own."""
        self._kernel.checkpoint = lanes.moved
        _at_work.append(self)
        for work in (self._take_for_ever, self._pulse_for_ever):
            threading.Thread(target=work, name=work.__name__.strip("_"), daemon=True).start()

    def stop(self, *, within_seconds: float = FINISH_WITHIN_SECONDS) -> None:
        """End; steps at work have this long to be finished."""
        watchdog.leave()
        self._stopped.set()
        self._has_news.set()
        if self in _at_work:
            _at_work.remove(self)
        deadline = time.monotonic() + within_seconds
        self._ours.finish(deadline)
        self._outside.finish(deadline)
        try:
            pulses.leave(self._sign, self.work)
        except DatabaseFault as error:
            logger.warning("The last sign of life is not noted: %s", error)
        finally:
            connection.close()
            tracing.flush()

    @property
    def work(self) -> pulses.WorkDone:
        """Return the work done since the start."""
        taken = self._ours.taken + self._outside.taken
        pool = pool_figures()
        return pulses.WorkDone(
            taken,
            self._kernel.leases_run_out,
            self._outside.hung(),
            asdict(pool) if pool else {},
            clock.skew_seconds(),
        )

    def put(self, row: DueRow) -> None:
        """Have it taken in its lane, by a thread of its own."""
        (self._outside if row.lane else self._ours).put(row)

    def _advance(self, row: DueRow) -> int:
        close_old_connections()
        return self._kernel.advance(row.kind, row.id, fence=row.fence, lane=row.lane)

    def _take_for_ever(self) -> None:
        while not self._stopped.is_set():
            self._has_news.clear()
            quiet = 0.0
            try:
                quiet = self._take()
            except DatabaseFault:
                logger.exception("The database does not answer; trying again")
                connection.close()
            if self._ours.hang():
                logger.error("A step has not moved for too long; this process makes room for another")
                os._exit(watchdog.REPLACE_ME)
            if self._outside.give_up_hung() >= MOST_GIVEN_UP:
                logger.error("Too many threads hang; this process makes room for another")
                self._ours.finish(time.monotonic() + GIVE_WAY_WITHIN_SECONDS)
                os._exit(watchdog.REPLACE_ME)
            if not self._stopped.is_set():
                watchdog.pulse()
            self._stopped.wait(self._every_seconds)
            self._has_news.wait(quiet - self._every_seconds)

    def _take(self) -> float:
        """Seconds until the next look, unless there are news."""
        close_old_connections()
        clock.measure_when_old()
        late = []
        quiet = QUIET_SECONDS
        ahead = timedelta(seconds=quiet)
        for row in self._kernel.due(own_for=OWN_FOR, ahead=ahead, except_lanes=self._outside.full()):
            if self._share.holds(row):
                if row.due_in:
                    quiet = min(quiet, row.due_in)
                else:
                    self.put(row)
            elif row.is_anybodys:
                late.append(row)
        # Of others' no more than can be taken at once, and any of them: else all would try the same.
        random.shuffle(late)
        for row in late:
            if (self._outside if row.lane else self._ours).room(row.lane):
                self.put(row)
        if not self._ours.are_blocked(after_seconds=BLOCKED_AFTER_SECONDS):
            self._proven_at = clock.now()
        return quiet

    def _pulse_for_ever(self) -> None:
        attended_at = time.monotonic()
        while not self._stopped.is_set():
            try:
                close_old_connections()
                if time.monotonic() - attended_at > silent_hosts.EVERY_SECONDS:
                    attended_at = time.monotonic()
                    silent_hosts.attend(self._kernel)
                if self._proven_at is not None:
                    self._share = pulses.give(self._sign, at=self._proven_at, work=self.work)
            except Exception:
                # Without this thread a process that takes what is due would be taken for one that hangs.
                logger.exception("No sign of life can be given; trying again")
                connection.close()
            self._stopped.wait(pulses.EVERY_SECONDS)
