"""A machine whose clock differs from ours: its times are told in ours, and the difference is told. Pure.

A report names the moment at which it was sent by the machine's clock. What lies between that and the moment
at which it came is the offset, and the time that it took on its way.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from gpu_health.signals.reading import LATEST, GpuReading, ReadingClock, ReadingKind, ReadingSource

FAULT = "clock.offset"
ON_ITS_WAY_SECONDS = 15.0
"""A sender waits 10 s for an answer: less than this may be the way alone, and is no offset."""
LARGE_SECONDS = 60.0
"""From so much on it is a finding."""


def offset_of(sent_at: float | None, received_at: datetime) -> float:
    """Seconds that are added to the machine's times; 0 where its clock is believed or did not say."""
    if sent_at is None or not 0 < sent_at < LATEST:
        return 0.0
    offset = received_at.timestamp() - sent_at
    return offset if abs(offset) > ON_ITS_WAY_SECONDS else 0.0


def in_our_time(readings: Iterable[GpuReading], offset: float, received_at: datetime) -> list[GpuReading]:
    """Shift dated readings by `offset`, none later than `received_at`; others stay as they are."""
    latest = received_at.timestamp()
    return [
        replace(one, at=max(0.0, min(one.at + offset, latest)))
        if offset and one.clock is ReadingClock.EPOCH
        else one
        for one in readings
    ]


def told(offset: float, received_at: datetime, *, is_known: bool) -> GpuReading | None:
    """Return the reading about the clock: once an hour while it is far off, once when it is right again."""
    is_large = abs(offset) >= LARGE_SECONDS
    if not is_large and not is_known:
        return None
    hour = int(received_at.timestamp() // 3600)
    behind = "behind" if offset > 0 else "ahead"
    words = f"The machine's clock is {abs(offset):.0f} s {behind}: its times are told in ours."
    return GpuReading(
        source=ReadingSource.REPORT,
        fault=FAULT,
        kind=ReadingKind.FAULT if is_large else ReadingKind.CLEARED,
        at=received_at.timestamp(),
        clock=ReadingClock.EPOCH,
        value=round(offset, 1),
        raw=words if is_large else "The machine's clock is right again.",
        origin=f"clock/{hour}" if is_large else f"clock/{received_at.timestamp():.0f}/right",
    )
