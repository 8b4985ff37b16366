"""Notices when the disk of this machine's home gets low, full, or has room again, and tells of it once.

Any number of processes may watch the same disk: who notes a change first tells of it, in one transaction. A
state that is better is told when it has lasted a while, so that a disk on the edge is no stream of news.
"""

import logging
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.db import close_old_connections, connection, transaction
from django.db.utils import Error as DatabaseFault
from django.utils import timezone

from common import disk
from common.disk import DiskSpace, DiskState
from common.events import publish
from common.models import DiskCondition

logger = logging.getLogger(__name__)

EVERY_SECONDS = 1.0
SETTLED_SECONDS = 30.0
FORGET_SECONDS = 60.0
"""After this long it is read anew what was told last: by a process that is gone, perhaps."""
WORSE = (DiskState.OK, DiskState.LOW, DiskState.FULL)


@dataclass(frozen=True, slots=True)
class _DiskChanged:
    host: str
    path: str
    before: str
    """`ok`, `low` or `full`."""
    free_bytes: int
    total_bytes: int


class DiskRanLow(_DiskChanged):
    """Less is free than should be; after `full`: there is room to write again, but little."""


class DiskFilled(_DiskChanged):
    """Nothing new is written."""


class DiskRecovered(_DiskChanged):
    """There is room enough again."""


EVENTS = {DiskState.LOW: DiskRanLow, DiskState.FULL: DiskFilled, DiskState.OK: DiskRecovered}


class DiskWatch:
    """A process's watch on the disk of its home."""

    def __init__(self, *, host: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._host = host or socket.gethostname()
        self._clock = clock
        self._told = DiskState.OK
        """What is known to have been told last."""
        self._read_at: float | None = None
        self._better_since: float | None = None

    def look(self) -> None:
        """Raises what the database raises; the next look tells then. Costs no query while nothing changes."""
        try:
            room = disk.room()
        except OSError:
            return  # `/readyz` says so
        now = self._clock()
        if self._read_at is None or now - self._read_at > FORGET_SECONDS:
            self._told, self._read_at = self._last_told(room), now
        if room.state is self._told:
            self._better_since = None
            return
        if WORSE.index(room.state) < WORSE.index(self._told):
            if self._better_since is None:
                self._better_since = now
            if now - self._better_since < SETTLED_SECONDS:
                return
        self._read_at = None  # read anew, whether this is the process that tells or another was faster
        self._tell(room)
        self._better_since = None

    def _last_told(self, room: DiskSpace) -> DiskState:
        row = DiskCondition.objects.filter(host=self._host, path=str(room.path)).first()
        return DiskState(row.state) if row else DiskState.OK

    def _tell(self, room: DiskSpace) -> None:
        with transaction.atomic():
            if self._change(room):
                event = EVENTS[room.state]
                publish(event(self._host, str(room.path), str(self._told), max(0, room.free), room.total))
                logger.warning("The disk of %s is %s; it was %s.", room.path, room.state, self._told)

    def _change(self, room: DiskSpace) -> bool:
        """Whether this process is the one that noted it."""
        names = {"host": self._host, "path": str(room.path)}
        if self._told is DiskState.OK:
            return DiskCondition.objects.get_or_create(**names, defaults={"state": room.state})[1]
        rows = DiskCondition.objects.filter(**names, state=self._told)
        if room.state is DiskState.OK:
            return bool(rows.delete()[0])
        return bool(rows.update(state=room.state, since=timezone.now()))


def changed_at(room: DiskSpace) -> datetime | None:
    """Return since when this machine's disk is as it was told last; None: there was room enough."""
    rows = DiskCondition.objects.filter(host=socket.gethostname(), path=str(room.path))
    return rows.values_list("since", flat=True).first()


def watch_disk(stopped: threading.Event) -> threading.Thread:
    """Watch in a thread of its own until `stopped`."""

    def work() -> None:
        watch, failing = DiskWatch(), False
        while not stopped.wait(EVERY_SECONDS):
            close_old_connections()
            try:
                watch.look()
                failing = False
            except DatabaseFault as error:
                if not failing:  # a line each second would fill what is full
                    logger.warning("The state of the disk cannot be noted: %s. Trying again.", error)
                failing = True
                connection.close()

    thread = threading.Thread(target=work, name="disk-watch", daemon=True)
    thread.start()
    return thread
