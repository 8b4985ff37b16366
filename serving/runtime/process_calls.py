"""Requests in CPU processes as the front sees them: who is idle, what comes back. By callbacks, no tasks."""

import itertools
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from serving.runtime.errors import Problem
from serving.runtime.frames import Frame, Meta

if TYPE_CHECKING:
    from serving.runtime.supervised_child import Child

Hear = Callable[[Frame, Meta, bytes], None]
_numbers = itertools.count(1)


class IdlePool:
    """CPU processes with nothing to do, and who waits for one."""

    def __init__(self) -> None:
        self._idle: list[Child] = []
        self._waiting: deque[Callable[[Child], None]] = deque()

    def take(self, give: Callable[["Child"], None]) -> None:
        """Calls `give` with the process that worked last, or with the first one that becomes idle. Whoever
        holds a slot waits here only while a process is being started again."""
        if self._idle:
            give(self._idle.pop())
        else:
            self._waiting.append(give)

    def withdraw(self, give: Callable[["Child"], None]) -> bool:
        """Whether it still waited."""
        if give not in self._waiting:
            return False
        self._waiting.remove(give)
        return True

    def free(self, child: "Child") -> None:
        """Take note that it can take a request."""
        if self._waiting:
            self._waiting.popleft()(child)
        else:
            self._idle.append(child)

    def remove(self, child: "Child") -> None:
        """Remove a process that is gone."""
        if child in self._idle:
            self._idle.remove(child)


class ProcessCall:
    """One request in a CPU process, from the wait for one until that is idle again. `hear` is told each
    frame, the last one (ANSWER or END) before the process is given to somebody else; END with a problem when
    it died."""

    def __init__(self, pool: IdlePool, meta: Meta, body: bytes, hear: Hear) -> None:
        self._pool, self._body, self._hear = pool, body, hear
        self._number = meta["id"] = next(_numbers)
        self._meta = meta
        self._child: Child | None = None
        self.is_over = False

    def start(self) -> None:
        self._pool.take(self._begin)

    def _begin(self, child: "Child") -> None:
        self._child = child
        child.call = self
        child.send(Frame.REQUEST, self._meta, self._body)

    def cancel(self) -> None:
        """Asks the handler to end. One that never began is over now; `hear` is not told."""
        if self.is_over:
            return
        if self._child is not None:
            self._child.pause(False)
            self._child.send(Frame.CANCEL, {"id": self._number})
        else:
            self._pool.withdraw(self._begin)
            self.is_over = True

    def pause(self, is_paused: bool) -> None:
        """The client is slow: the process waits with what it has to say."""
        if self._child is not None and not self.is_over:
            self._child.pause(is_paused)

    def kill(self, why: str) -> None:
        if self._child is not None and not self.is_over:
            self._child.kill(why)

    def on_frame(self, kind: Frame, meta: Meta, body: bytes) -> None:
        if meta.get("id") != self._number:
            return
        is_last = kind is Frame.ANSWER or kind is Frame.END
        try:
            self.is_over = is_last
            self._hear(kind, meta, body)
        finally:
            if is_last and (child := self._child) is not None:
                child.call = None
                child.pause(False)
                self._pool.free(child)

    def lost(self, reason: str) -> None:
        """Its process is gone."""
        problem = Problem(500, "Process ended", f"The process that worked on this request {reason}.")
        self.is_over = True
        self._hear(Frame.END, {"problem": problem.document()}, b"")
