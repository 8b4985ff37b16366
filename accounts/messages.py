"""Events in words, for chats and e-mail: title, facts, a link to the page; in a reader's language."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urljoin

import orjson
from django.conf import settings
from django.utils import translation
from django.utils.translation import gettext as _

from accounts.models import WebhookEvent
from common.pages import subjects
from common.webhooks import catalogue
from common.webhooks.formats import ChatMessage, Tone

SHOWN = (
    "message",
    "title",
    "name",
    "service",
    "model",
    "version",
    "cluster",
    "state",
    "severity",
    "number",
    "reason",
    "why",
)
"""Fields of an event and its document that its message names, in this order."""
BAD = (
    "firing",
    "failed",
    "failing",
    "lost",
    "stuck",
    "full",
    "refused",
    "silent",
    "degraded",
    "opened",
    "stopped",
)
GOOD = ("resolved", "ready", "ended", "recovered", "drained", "restored")
OVER = ("resolved", "recovered", "ended", "drained", "restored", "resumed", "uncordoned")
LABELS = ("service", "cluster", "version", "severity", "team")


def message_of(event: WebhookEvent, language: str) -> ChatMessage:
    """Return the event in words. Its body must be written out."""
    said = orjson.loads(event.body)
    data = said["data"]
    with translation.override(language):
        known = catalogue.known().get(event.type)
        document = next((value for value in data.values() if isinstance(value, dict)), data)
        return ChatMessage(
            title=str(known.description) if known else event.type,
            lines=list(_lines({**data, **document})),
            url=urljoin(settings.SLIPWAY_PUBLIC_URL, _path(data)),
            tone=_tone(event.type, document),
            key=":".join(
                ["slipway", event.type.partition(".")[0], *(str(one) for one in event.ids.values())]
            ),
            is_over=event.type.rpartition(".")[2] in OVER,
            labels=_labels(event.type, document),
            at=datetime.fromisoformat(said["timestamp"]),
            link=_("Open in Slipway"),
            has_end=event.type == "alert.firing",
            is_from_outside=bool(document.get("is_from_outside")),
        )


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the document says in few words, one fact a line."""
    for name in SHOWN:
        value = document.get(name)
        if isinstance(value, str | int | float) and value not in ("", None, False):
            yield f"{name}: {value}"
    labels = document.get("labels")
    if isinstance(labels, dict):
        yield from (f"{name}: {value}" for name, value in labels.items() if name not in document)
    for one in document.get("alerts", ())[:5]:
        yield "- " + ", ".join(f"{name}={value}" for name, value in one["labels"].items())


def _labels(event_type: str, document: Mapping[str, Any]) -> Mapping[str, str]:
    """Return what tells it apart; of alerts their labels, by which an Alertmanager routes and silences."""
    own = {name: str(document[name]) for name in LABELS if document.get(name)}
    if event_type.startswith("alert."):
        own |= {"alertname": document["name"], **document["labels"]}
    return own


def _tone(event_type: str, document: Mapping[str, Any]) -> Tone:
    verb = event_type.rpartition(".")[2]
    state = str(document.get("state", ""))
    if state in ("failed", "rolled_back", "aborted", "rejected", "stuck") or verb in BAD:
        return "warn" if document.get("severity") == "warning" else "bad"
    return "good" if verb in GOOD else "idle"


def _path(data: Mapping[str, Any]) -> str:
    """Return the path of the page of what the event is about: the first id whose kind has one."""
    for name, value in data.items():
        noun = name.removesuffix("_id")
        if noun != name and isinstance(value, int) and (found := subjects.address_by_noun(noun, value)):
            return found
    document = next((value for value in data.values() if isinstance(value, dict)), {})
    alerts = document.get("alerts") or [{}]
    return str(alerts[0].get("url") or "/")
