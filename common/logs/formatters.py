"""How a line is written: as text for who reads along, as JSON for who collects. Without secrets in both."""

import logging
from datetime import UTC, datetime
from typing import Any

import orjson

from common import tracing
from common.hosts import name_for_logs
from common.logs import context
from common.logs.redaction import redacted


class TextFormatter(logging.Formatter):
    """Redacts the finished text, so that arguments and tracebacks are covered too."""

    def format(self, record: logging.LogRecord) -> str:
        record.request_id = _origin_of(record).request_id
        return redacted(super().format(record))


class JsonFormatter(logging.Formatter):
    """Formatter of one JSON object per line; docs/PRODUCTION.md names its members.

    What a caller gives as `extra={"fields": {...}}` becomes members, too.
    """

    def format(self, record: logging.LogRecord) -> str:
        origin = _origin_of(record)
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": redacted(record.getMessage()),
            "role": context.role(),
            "host": name_for_logs(),
            "pid": record.process,
            "request_id": "" if origin.request_id == context.NONE else origin.request_id,
            "actor": origin.actor,
            "trace_id": (tracing.traceparent() or origin.traceparent)[3:35],
            **context.subject(),
            **{name: _clean(value) for name, value in getattr(record, "fields", {}).items()},
        }
        if record.exc_info:
            line["exception"] = redacted(self.formatException(record.exc_info))
        if record.stack_info:
            line["stack"] = redacted(self.formatStack(record.stack_info))
        told = {name: value for name, value in line.items() if value not in ("", None)}
        return orjson.dumps(told, default=lambda value: redacted(str(value))).decode()


def _origin_of(record: logging.LogRecord) -> context.RequestOrigin:
    of_request = getattr(getattr(record, "request", None), "origin", None)
    return of_request if isinstance(of_request, context.RequestOrigin) else context.current()


def _clean(value: Any) -> Any:
    return redacted(value) if isinstance(value, str) else value
