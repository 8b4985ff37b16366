"""Bodies of messages as chats and paging services take them. Pure; docs/WEBHOOKS.md names their sources.

An event becomes a `ChatMessage` in the language of its reader, and that the JSON of one service.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import orjson

Tone = Literal["good", "warn", "bad", "idle"]
LONGEST_TEXT = 3_000
LONGEST_ALERT = timedelta(days=30)
COLOURS = {"good": "2eb67d", "warn": "ecb22e", "bad": "e01e5a", "idle": "8a8a8a"}
SEVERITIES = {"good": "info", "idle": "info", "warn": "warning", "bad": "critical"}


@dataclass(frozen=True, slots=True)
class ChatMessage:
    title: str
    lines: Sequence[str]
    url: str
    """Page of what it is about, absolute."""
    tone: Tone
    key: str
    """The same for what begins and for what ends it."""
    is_over: bool
    """It tells that something is over."""
    labels: Mapping[str, str]
    at: datetime
    link: str
    """Text of the link, in the reader's language."""
    has_end: bool = False
    """Another message will tell that it is over."""
    is_from_outside: bool = False
    """An Alertmanager has sent it to us."""

    @property
    def text(self) -> str:
        return "\n".join(self.lines)[:LONGEST_TEXT]


def _slack(message: ChatMessage) -> Any:
    """Incoming webhook of Slack; Mattermost and Rocket.Chat take the same."""
    attachment = {
        "color": f"#{COLOURS[message.tone]}",
        "title": _escaped(message.title),
        "title_link": message.url,
        "text": _escaped(message.text),
        "ts": int(message.at.timestamp()),
    }
    return {"text": _escaped(f"Slipway: {message.title}"), "attachments": [attachment]}


def _escaped(text: str) -> str:
    """Escape what Slack reads as markup: a name in angle brackets would ring everybody."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _feishu(message: ChatMessage) -> Any:
    """Interactive card of a custom bot of Feishu (Lark)."""
    template = {"good": "green", "warn": "orange", "bad": "red", "idle": "grey"}[message.tone]
    elements: list[Any] = [{"tag": "div", "text": {"tag": "plain_text", "content": message.text}}]
    button = {"tag": "button", "text": {"tag": "plain_text", "content": message.link}, "url": message.url}
    elements.append({"tag": "action", "actions": [button]})
    head = {"template": template, "title": {"tag": "plain_text", "content": f"Slipway: {message.title}"}}
    return {"msg_type": "interactive", "card": {"header": head, "elements": elements}}


def _dingtalk(message: ChatMessage) -> Any:
    """Markdown message of a custom robot of DingTalk."""
    title = f"Slipway: {message.title}"
    return {"msgtype": "markdown", "markdown": {"title": title, "text": _markdown(message, "  \n")}}


def _wecom(message: ChatMessage) -> Any:
    """Markdown message of a group robot of WeCom."""
    return {"msgtype": "markdown", "markdown": {"content": _markdown(message, "\n")}}


def _markdown(message: ChatMessage, newline: str) -> str:
    """Headline, lines and link; what names hold is no markup."""
    lines = [f"### Slipway: {_plain(message.title)}", *map(_plain, message.text.splitlines())]
    return newline.join([*lines, f"[{message.link}]({message.url})"])


def _plain(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\`*_[]()<>#" else letter for letter in text)


def _teams(message: ChatMessage) -> Any:
    """Adaptive card of a Workflows webhook of Microsoft Teams."""
    colour = {"good": "Good", "warn": "Warning", "bad": "Attention", "idle": "Default"}[message.tone]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            {
                "type": "TextBlock",
                "text": _plain(message.title),
                "weight": "Bolder",
                "color": colour,
                "wrap": True,
            },
            *(
                {"type": "TextBlock", "text": _plain(line), "wrap": True}
                for line in message.text.splitlines()
            ),
        ],
        "actions": [{"type": "Action.OpenUrl", "title": message.link, "url": message.url}],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}


def _alertmanager(message: ChatMessage) -> Any:
    """A list of one alert, as `POST /api/v2/alerts` of an Alertmanager takes it; of its own alerts, none.

    It takes an alert that names no end, and is not sent again within its `resolve_timeout`, for resolved.
    """
    if message.is_from_outside:
        return []
    labels = {"alertname": message.key, "severity": SEVERITIES[message.tone], **message.labels}
    found: dict[str, Any] = {
        "labels": labels,
        "annotations": {"summary": message.title, "description": message.text},
        "startsAt": message.at.isoformat(),
        "generatorURL": message.url,
    }
    if message.is_over:
        found["endsAt"] = message.at.isoformat()
    elif message.has_end:
        found["endsAt"] = (message.at + LONGEST_ALERT).isoformat()
    return [found]


def _pagerduty(message: ChatMessage) -> Any:
    """Event of PagerDuty's Events API v2; its routing key stands in the address."""
    return {
        "event_action": "resolve" if message.is_over else "trigger",
        "dedup_key": message.key[:255],
        "payload": {
            "summary": f"{message.title}: {message.text}"[:1_024],
            "source": "slipway",
            "severity": SEVERITIES[message.tone],
            "timestamp": message.at.isoformat(),
            "custom_details": dict(message.labels),
        },
        "links": [{"href": message.url, "text": message.link}],
    }


FORMATS: Mapping[str, Callable[[ChatMessage], Any]] = {
    "slack": _slack,
    "feishu": _feishu,
    "dingtalk": _dingtalk,
    "wecom": _wecom,
    "teams": _teams,
    "alertmanager": _alertmanager,
    "pagerduty": _pagerduty,
}


def body_of(kind: str, message: ChatMessage, **further: str) -> bytes:
    """Return the JSON of that service; `further`: fields at its top, such as a routing key."""
    document = FORMATS[kind](message)
    return orjson.dumps({**document, **further} if further else document)


def refused(kind: str, status: int | None, answer: str) -> str:
    """Return why a service that answers 200 did not take it; empty: it did. Chats of China do so."""
    if kind not in ("feishu", "dingtalk", "wecom") or status != 200:
        return ""
    try:
        document = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return ""
    code = document.get("errcode", document.get("code", 0)) if isinstance(document, dict) else 0
    return (
        ""
        if code == 0
        else f"It answered with the error {code}: {document.get('errmsg', document.get('msg', ''))}"
    )
