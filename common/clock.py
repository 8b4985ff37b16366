"""The installation's time, which is the database's: hosts whose clocks differ agree on what is due.

Each process measures now and then how far its host's clock is from the database's. Clocks that NTP keeps
differ by less than `TOLERATED`: then a host's own is right. SQLite has one host.
"""

import logging
import threading
import time
from datetime import datetime, timedelta

from django.db import close_old_connections, connection
from django.db.utils import Error as DatabaseFault
from django.utils import timezone

logger = logging.getLogger(__name__)

TOLERATED = timedelta(seconds=1)
UNHEALTHY_SECONDS = 5.0
"""So far off a host's clock is worth an alert; certificates, tokens and logs go by it."""
MEASURE_EVERY_SECONDS = 2.0

_skew = timedelta(0)
_measured_at = float("-inf")


def now() -> datetime:
    """The time of the database, as last measured. Asks nothing."""
    return timezone.now() + _applied()


def seconds() -> float:
    """The same, in seconds since 1970."""
    return time.time() + _applied().total_seconds()


def skew_seconds() -> float:
    """Return how far the database's clock is ahead of this host's, as last measured; behind: negative."""
    return _skew.total_seconds()


def measure() -> None:
    """Ask the database what time it is. Raises what the database raises."""
    global _skew, _measured_at
    if connection.vendor == "postgresql":
        before, began = timezone.now(), time.monotonic()
        with connection.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp()")
            (there,) = cursor.fetchone()
        took = timedelta(seconds=time.monotonic() - began)
        if took < TOLERATED:  # a slower answer says too little
            _skew = there - (before + took / 2)
    _measured_at = time.monotonic()


def measure_when_old() -> None:
    if time.monotonic() - _measured_at > MEASURE_EVERY_SECONDS:
        measure()


def keep_measuring() -> threading.Thread:
    """Measure in a thread, for a process that takes no rows."""
    thread = threading.Thread(target=_measure_for_ever, name="clock", daemon=True)
    thread.start()
    return thread


def _measure_for_ever() -> None:
    while True:
        try:
            close_old_connections()
            measure()
        except DatabaseFault as error:
            logger.debug("The clock is not compared: %s", error)
        finally:
            connection.close()
        time.sleep(MEASURE_EVERY_SECONDS)


def _applied() -> timedelta:
    return _skew if abs(_skew) > TOLERATED else timedelta(0)
