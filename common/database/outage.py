"""PostgreSQL is away: said once in the log, and at once to whoever asks for a connection.

Without this, everybody waits for a server that is known to be gone, and each of them logs a traceback.
"""

import logging
import threading
import time
from typing import Any

import psycopg
from django.db import InterfaceError, OperationalError

logger = logging.getLogger(__name__)

TRY_EVERY_SECONDS = 1.0
SERVICE_UNAVAILABLE = 503


class Outage:
    """The time from the first connection that was refused to the first that came about. Safe in threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None
        self._tried_at = 0.0
        self._reason = ""
        self._left_out = 0

    @property
    def is_on(self) -> bool:
        return self._since is not None

    @property
    def reason(self) -> str:
        return self._reason

    def begins(self, error: BaseException) -> None:
        now = time.monotonic()
        with self._lock:
            if self._since is not None:
                return
            self._since, self._tried_at, self._left_out = now, now, 0
            self._reason = " ".join(str(error).split())
        logger.error("The database does not answer; what needs it is refused until it does: %s", self._reason)

    def ends(self) -> None:
        with self._lock:
            if self._since is None:
                return
            seconds, left_out, self._since = time.monotonic() - self._since, self._left_out, None
        logger.warning(
            "The database answers again after %.0f s; %d lines that said so were left out", seconds, left_out
        )

    def may_try(self) -> bool:
        """Whether it is the caller's turn to look whether the server is back: one in every second."""
        with self._lock:
            if time.monotonic() - self._tried_at < TRY_EVERY_SECONDS:
                return False
            self._tried_at = time.monotonic()
            return True

    def leave_out(self) -> None:
        with self._lock:
            self._left_out += 1


outage = Outage()
"""Of this process."""


class OutageAwareConnection(psycopg.Connection[Any]):
    """Notes whether it comes about; of pools, which connect in threads of their own."""

    @classmethod
    def connect(cls, *args: Any, **options: Any) -> Any:
        try:
            made = super().connect(*args, **options)
        except psycopg.OperationalError as error:
            if not _is_refusal_of_a_server(error):
                outage.begins(error)
            raise
        outage.ends()
        return made


def _is_refusal_of_a_server(error: psycopg.OperationalError) -> bool:
    """A wrong password or a server that is full answers: that is no outage, and each is worth a line."""
    return error.sqlstate is not None and not error.sqlstate.startswith("57P")


class LeftOutDuringOutage(logging.Filter):
    """Drops what would say again, per request or per look, that the database does not answer."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("psycopg.pool"):
            return False
        if not outage.is_on or record.name == __name__ or not _says_so(record):
            return True
        outage.leave_out()
        return False


def _says_so(record: logging.LogRecord) -> bool:
    if getattr(record, "status_code", None) == SERVICE_UNAVAILABLE:
        return True
    found = [record.exc_info[1]] if record.exc_info else []
    found += [argument for argument in record.args or () if isinstance(argument, BaseException)]
    return any(_is_databases(error) for error in found)


def _is_databases(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OperationalError | InterfaceError | psycopg.OperationalError):
            return True
        error = error.__cause__ or error.__context__
    return False
