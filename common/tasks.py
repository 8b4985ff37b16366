"""Doorbells: a task carries an id and makes one call."""

import logging
import time
from typing import Any

from celery import shared_task
from kombu.exceptions import OperationalError

from common.reconcile import Due, DueRow, kernel, taking

logger = logging.getLogger(__name__)

SILENCE_SECONDS = 5.0
"""After a broker failed, bells stay silent this long: a request must not wait for a dead broker each time."""

_silent_until = 0.0


@shared_task
def advance(kind: str, pk: int, lane: str = "", **_: Any) -> None:
    """`_`: what a newer release says beside it; a doorbell is a hint."""
    if lane:
        # Not in the thread that answers doorbells: it would wait for a system that is not ours.
        taking.offer(DueRow(kind, pk, fence=None, is_anybodys=True, lane=lane))
    else:
        kernel.advance(kind, pk, lane="")


def ring(due: Due) -> None:
    """Tell a Celery worker that the row is due. A lost ring costs latency: the sweep finds the row."""
    global _silent_until
    if time.monotonic() < _silent_until:
        return
    try:
        advance.delay(due.kind, due.id, due.lane)
    except OperationalError as error:
        _silent_until = time.monotonic() + SILENCE_SECONDS
        logger.warning(
            "The broker does not answer (%s): leaving %s %s to the sweeper", error, due.kind, due.id
        )
