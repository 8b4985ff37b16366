"""How a worker and an agent write their logs: as text for who reads along, or as JSON for who collects.

`SLIPWAY_LOG_FORMAT=json`, as for the control plane, whose lines have the same members (docs/PRODUCTION.md).
"""

import json
import logging
import os
import socket
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime

TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"

traceparent: ContextVar[str] = ContextVar("traceparent", default="")
"""W3C's, of the request that is worked on; empty: it brought none."""


def set_up(role: str, **whose: str) -> None:
    """Everything to standard error. `whose`: what each JSON line says of who writes it."""
    handler = logging.StreamHandler(sys.stderr)
    is_json = os.environ.get("SLIPWAY_LOG_FORMAT") == "json"
    handler.setFormatter(JsonLines(role, whose) if is_json else logging.Formatter(TEXT))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


class JsonLines(logging.Formatter):
    """A formatter that writes one JSON object per line."""

    def __init__(self, role: str, whose: Mapping[str, str]) -> None:
        super().__init__()
        self._who = {"role": role, "host": socket.gethostname(), **whose}

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **self._who,
            "pid": record.process,
            "trace_id": traceparent.get()[3:35],
            "exception": self.formatException(record.exc_info) if record.exc_info else "",
        }
        return json.dumps({name: value for name, value in line.items() if value != ""}, ensure_ascii=False)
