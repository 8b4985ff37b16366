"""Lanes: threads take rows side by side, and of one lane no more than it may have.

A row whose steps wait for a system that is not ours names it as its lane. However slow or dead that system
is, it holds the few threads of its lane, and what waits for another goes on beside it.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from django.db import connection

from common.reconcile.due import DueRow

logger = logging.getLogger(__name__)

IDLE_SECONDS = 10.0
"""Until a thread with nothing to do ends; it holds a connection to the database."""


@dataclass(eq=False, slots=True)
class _LaneThread:
    """A thread, and the row that it has in hand."""

    thread: threading.Thread = field(init=False)
    row: DueRow | None = None
    moved_at: float = 0.0
    is_given_up: bool = False

    def moved(self) -> None:
        self.moved_at = time.monotonic()

    def has_not_moved_for(self, seconds: float) -> bool:
        return self.row is not None and time.monotonic() - self.moved_at > seconds


_here = threading.local()


def moved(_checkpoint: str = "") -> None:
    """The thread at work has come to a checkpoint of the kernel."""
    hand: _LaneThread | None = getattr(_here, "hand", None)
    if hand is not None:
        hand.moved()


class Lanes:
    """Threads, made when rows come and ended when none do. Every method may be called by any thread."""

    def __init__(
        self,
        name: str,
        advance: Callable[[DueRow], int],
        *,
        threads: int,
        per_lane: int,
        limit_of: Callable[[DueRow], float],
        reserved: int = 0,
        let_go: Callable[[], None] = lambda: None,
    ) -> None:
        """`per_lane`: how many threads one lane has at most. `reserved`: so many stay free for lanes that
        have none. `limit_of`: seconds that a thread may stay in a step of this row without moving.
        `let_go` is called when a row is in nobody's hand any more.
        """
        self._name = name
        self._advance = advance
        self._threads = threads
        self._per_lane = per_lane
        self._reserved = reserved
        self._limit_of = limit_of
        self._tell_let_go = let_go
        self._changed = threading.Condition()
        self._waiting: dict[str, deque[DueRow]] = {}
        """By lane; the lane that has waited the longest for a thread first."""
        self._in_hand: set[tuple[str, int]] = set()
        self._hands: list[_LaneThread] = []
        self._given_up: list[_LaneThread] = []
        self._begun = 0
        self._is_closed = False
        self.taken = 0
        """Steps."""

    def put(self, row: DueRow) -> None:
        """Unless it is in hand already."""
        with self._changed:
            if self._is_closed or _key(row) in self._in_hand:
                return
            self._in_hand.add(_key(row))
            self._waiting.setdefault(row.lane, deque()).append(row)
            self._call()

    def room(self, lane: str = "") -> int:
        """Return how many more rows of the lane could be taken at once."""
        with self._changed:
            busy = self._busy()
            waiting = sum(len(rows) for rows in self._waiting.values())
            of_lane = self._may_have(lane) - busy[lane] - len(self._waiting.get(lane, ()))
            return max(0, min(of_lane, self._threads - busy.total() - waiting))

    def full(self) -> list[str]:
        """Lanes with rows that wait for a thread: they need no more for the moment."""
        with self._changed:
            return list(self._waiting)

    def are_blocked(self, *, after_seconds: float) -> bool:
        """Every thread is in a step that has not moved for this long."""
        with self._changed:
            blocked = sum(hand.has_not_moved_for(after_seconds) for hand in self._hands)
            return blocked >= self._threads

    def hang(self) -> bool:
        with self._changed:
            return any(self._is_past_limit(hand) for hand in self._hands)

    def give_up_hung(self) -> int:
        """Let others do what threads past their limit should. How many given up ones have not ended yet.

        Their rows' leases run out, which counts as an attempt, and makes void what they may still write.
        """
        with self._changed:
            for hand in [hand for hand in self._hands if self._is_past_limit(hand)]:
                assert hand.row is not None  # noqa: S101  (it is past its limit)
                logger.error("A step of %s %s hangs in lane %s", hand.row.kind, hand.row.id, hand.row.lane)
                hand.is_given_up = True
                self._hands.remove(hand)
                self._given_up.append(hand)
                self._in_hand.discard(_key(hand.row))
            self._call()
            return len(self._given_up)

    def hung(self) -> tuple[str, ...]:
        """Lanes in which a thread was given up and has not ended yet."""
        with self._changed:
            return tuple(sorted({hand.row.lane for hand in self._given_up if hand.row is not None}))

    def finish(self, deadline: float) -> None:
        """End when what is at work is done; what only waits is left to others."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify_all()
            threads = [hand.thread for hand in self._hands]
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _is_past_limit(self, hand: _LaneThread) -> bool:
        return hand.row is not None and hand.has_not_moved_for(self._limit_of(hand.row))

    def _busy(self) -> Counter[str]:
        return Counter(hand.row.lane for hand in self._hands if hand.row is not None)

    def _may_have(self, lane: str) -> int:
        hung = sum(hand.row is not None and hand.row.lane == lane for hand in self._given_up)
        return max(1, self._per_lane - hung)

    def _next_lane(self) -> str | None:
        """Return the lane whose turn it is: one that has no thread comes first."""
        busy = self._busy()
        for lane in self._waiting:
            if not busy[lane]:
                return lane
        if self._threads - busy.total() <= self._reserved:
            return None
        return next((lane for lane in self._waiting if busy[lane] < self._may_have(lane)), None)

    def _call(self) -> None:
        """Somebody for what waits, if it may be taken."""
        if self._next_lane() is None:
            return
        if any(hand.row is None for hand in self._hands):
            self._changed.notify()
        elif len(self._hands) < self._threads:
            hand = _LaneThread()
            hand.thread = threading.Thread(
                target=self._work, args=[hand], name=f"{self._name}-{self._begun}", daemon=True
            )
            self._begun += 1
            self._hands.append(hand)
            hand.thread.start()

    def _work(self, hand: _LaneThread) -> None:
        _here.hand = hand
        try:
            while not hand.is_given_up and (row := self._take(hand)) is not None:
                steps = 0
                try:
                    steps = self._advance(row)
                except Exception:
                    logger.exception("Advancing %s %s failed", row.kind, row.id)
                    connection.close()
                finally:
                    self._let_go(hand, row, steps)
        finally:
            with self._changed:
                (self._given_up if hand.is_given_up else self._hands).remove(hand)
            connection.close()

    def _take(self, hand: _LaneThread) -> DueRow | None:
        """The next row; None when there is none for a while."""
        with self._changed:
            is_there = self._changed.wait_for(
                lambda: self._is_closed or self._next_lane() is not None, IDLE_SECONDS
            )
            lane = self._next_lane()
            if self._is_closed or not is_there or lane is None:
                return None
            rows = self._waiting.pop(lane)
            hand.row = rows.popleft()
            hand.moved()
            if rows:
                self._waiting[lane] = rows
            self._call()
            return hand.row

    def _let_go(self, hand: _LaneThread, row: DueRow, steps: int) -> None:
        with self._changed:
            self.taken += steps
            if not hand.is_given_up:
                hand.row = None
                self._in_hand.discard(_key(row))
        self._tell_let_go()


def _key(row: DueRow) -> tuple[str, int]:
    return row.kind, row.id
