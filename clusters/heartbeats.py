"""Heartbeats as all processes share them: the latest record per worker's seat, in Redis; never a row."""

import time
from collections.abc import Mapping
from typing import Any

from clusters.fleet import FULL, Beat
from common.live import NotShared, stored
from serving.protocol import Heartbeat

SHARED_NAME = "heartbeats"
KEEP_SECONDS = 60.0
"""A worker that has said nothing for this long is not even remembered as lost by its heartbeat."""


def record_of(heartbeat: Heartbeat, before: Mapping[str, Any] | None, *, now: float) -> dict[str, Any]:
    """The heartbeat with `full_since`: when, in seconds since 1970, its process became wholly busy."""
    full_since = None
    if heartbeat.busy >= FULL:
        goes_on = before is not None and before["pid"] == heartbeat.pid and before["full_since"] is not None
        full_since = before["full_since"] if before is not None and goes_on else now
    return heartbeat.to_dict() | {"full_since": full_since}


def latest(workers: list[str] | None = None) -> dict[str, Beat] | None:
    """The last heartbeat by worker, for synchronous code; None when they are not known at the moment."""
    try:
        records = stored(SHARED_NAME, workers)
    except NotShared:
        return None
    now = time.time()
    return {
        name: Beat.of_record(record, age_seconds=max(0.0, now - at), now=now)
        for name, (at, record) in records.items()
    }
