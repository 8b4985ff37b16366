"""Log lines that carry the request's id and no secret."""

import logging
import re

from common import request_id

_SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\bslp_([a-z0-9]+)_[A-Za-z0-9]+"), r"slp_\1_***"),
    (re.compile(r"\bhf_[A-Za-z0-9]{8,}"), "hf_***"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), r"\1 ***"),
    (re.compile(r"://([^/\s:@]*):[^/\s@]+@"), r"://\1:***@"),
    (
        re.compile(
            r"(?i)\b((?:[a-z]+[_-])*(?:password|passwd|secret|token|(?:api|secret|access|private|signing)[_-]?key|sessionid|csrftoken)[\"']?"
            r"\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s\"',;&)}]+)"
        ),
        r"\1***",
    ),
)


def redacted(text: str) -> str:
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


class RedactingFormatter(logging.Formatter):
    """Redacts the finished text, so that arguments and tracebacks are covered too."""

    def format(self, record: logging.LogRecord) -> str:
        record.request_id = request_id.current()
        return redacted(super().format(record))
