"""How much room is left on the disk of the home, and the reserve that is given up when there is none.

The reserve is a file that takes room while there is some. Whoever looks after the disk (`DiskReserve.keep`)
empties it once the disk is full: what then still has to be written, such as a rollback, finds a little room.
Room that the reserve is to have again counts as taken, so that "full" ends only when space is really back.
"""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from django.conf import settings

from common.errors import Unavailable

MIB = 1024 * 1024
KEPT_SECONDS = 1.0
LARGEST_SHARE = 20
"""The reserve is at most one 20th of the disk."""


class DiskState(StrEnum):
    OK = "ok"
    LOW = "low"
    FULL = "full"


class DiskFull(Unavailable):
    """Nothing new is written until there is room again."""


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """Space of one file system, in bytes."""

    path: Path
    total: int
    free: int
    """Without what the reserve lacks: below zero when that much has to come back first."""
    reserve: int
    warn_percent: int

    @property
    def state(self) -> DiskState:
        if self.free < self.reserve // 4:
            return DiskState.FULL
        return DiskState.LOW if self.free * 100 < self.total * self.warn_percent else DiskState.OK

    @property
    def is_full(self) -> bool:
        return self.state is DiskState.FULL

    @property
    def free_percent(self) -> float:
        return max(0.0, 100.0 * self.free / self.total) if self.total else 0.0


@dataclass(frozen=True, slots=True)
class DiskReserve:
    """The file `run/disk-reserve` of a home."""

    home: Path
    wanted_mib: int
    warn_percent: int

    @property
    def path(self) -> Path:
        return self.home / "run" / "disk-reserve"

    def room(self) -> DiskSpace:
        """Raises OSError when the home cannot be asked."""
        status = os.statvfs(self.home)
        total = status.f_blocks * status.f_frsize
        size = min(self.wanted_mib * MIB, total // LARGEST_SHARE)
        try:
            held = self.path.stat().st_blocks * 512
        except FileNotFoundError:
            held = size  # nobody keeps a reserve here
        free = status.f_bavail * status.f_frsize - max(0, size - held)
        return DiskSpace(self.home, total, free, size, self.warn_percent)

    def keep(self) -> DiskSpace:
        """Take the reserve while there is room for it, give it up when the disk is full. Raises OSError."""
        self.path.touch(mode=0o600)
        room = self.room()
        descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if room.is_full:
                os.ftruncate(descriptor, 0)
            elif os.fstat(descriptor).st_size < room.reserve and room.free >= room.reserve // 2:
                with suppress(OSError):
                    os.posix_fallocate(descriptor, 0, room.reserve)
        finally:
            os.close(descriptor)
        return room


@lru_cache(maxsize=1)
def _reserve(home: Path, wanted_mib: int, warn_percent: int) -> DiskReserve:
    return DiskReserve(home, wanted_mib, warn_percent)


_seen: tuple[float, DiskSpace] | None = None


def room() -> DiskSpace:
    """Return the space as it was at most a second ago. Raises OSError when the home cannot be asked."""
    global _seen
    now = time.monotonic()
    if _seen is None or now - _seen[0] > KEPT_SECONDS or _seen[1].path != settings.SLIPWAY_HOME:
        reserve = _reserve(
            settings.SLIPWAY_HOME, settings.SLIPWAY_DISK_RESERVE_MIB, settings.SLIPWAY_DISK_WARN_PERCENT
        )
        _seen = now, reserve.room()
    return _seen[1]


def is_full() -> bool:
    """False, too, when the home cannot be asked: whoever writes will hear why."""
    try:
        return room().is_full
    except OSError:
        return False
