"""What a stranger sends that cannot be accepted (another host's name, a form cut short) is a warning of one
line: Django makes an error with a traceback of it, and anybody can send thousands.
"""

import logging

SERVER_ERROR = 500
SUSPICIOUS = "django.security."


class OneLineForClients(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        is_suspicious = record.name.startswith(SUSPICIOUS)
        if is_suspicious and record.levelno > logging.WARNING:
            record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
        if is_suspicious or getattr(record, "status_code", SERVER_ERROR) < SERVER_ERROR:
            record.exc_info = None
        return True
