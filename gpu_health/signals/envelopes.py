"""What carries an event of a provider: a message of Amazon SNS or Google Pub/Sub, whose sender is known."""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from gpu_health.signals.provider_events import NotAnEvent

MAX_WITHIN = 3
"""Envelopes within envelopes."""


def unwrapped(document: Any) -> Any:
    """The event itself; what is in no envelope as it came. Raises NotAnEvent for one that holds no JSON."""
    for _ in range(MAX_WITHIN):
        text = _content(document)
        if text is None:
            return document
        raw = text.encode() if isinstance(text, str) else text
        if b"\\u0000" in raw:
            raise NotAnEvent("The message holds a NUL, which no text may.")
        try:
            document = json.loads(raw)
        except (ValueError, RecursionError):
            raise NotAnEvent("The message holds no JSON: subscribe to events, and send them raw.") from None
    return document


def _content(document: Any) -> str | bytes | None:
    if not isinstance(document, Mapping):
        return None
    if document.get("Type") == "Notification" and isinstance(document.get("Message"), str):
        return str(document["Message"])
    message = document.get("message")
    if isinstance(message, Mapping) and "subscription" in document and isinstance(message.get("data"), str):
        try:
            return base64.b64decode(message["data"], validate=True)
        except binascii.Error:
            raise NotAnEvent("message.data is not base64.") from None
    return None
