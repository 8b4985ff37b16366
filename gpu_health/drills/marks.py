"""How a reading says that a drill has played it."""

import re
from dataclasses import replace

from gpu_health.signals.reading import GpuReading, details

DETAIL = "drill"
_MARK = re.compile(r"\[slipway drill (\d{1,12})\]")


def mark(drill: int) -> str:
    """Return the mark of a drill for the text of conditions and events, which have no details."""
    return f"[slipway drill {drill}]"


def marked(reading: GpuReading, drill: int) -> GpuReading:
    return replace(reading, details=details({**dict(reading.details), DETAIL: str(drill)}))


def drill_of(reading: GpuReading) -> int | None:
    """Return the drill of a reading; None: the reading is real."""
    if (told := reading.detail(DETAIL)).isdecimal():
        return int(told)
    found = _MARK.search(reading.raw)
    return int(found[1]) if found else None
