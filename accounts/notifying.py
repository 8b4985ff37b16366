"""Sends events to people: to chats and paging services in their own formats, and by e-mail."""

import smtplib
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from urllib.parse import parse_qs, unquote, urlencode, urlsplit, urlunsplit

from django.conf import settings
from django.utils import translation
from django.utils.translation import ngettext

from accounts.messages import message_of
from accounts.models import WebhookEndpoint, WebhookEvent
from accounts.states import WebhookFormat
from common.webhooks.destination import AllowedHosts
from common.webhooks.formats import ChatMessage, body_of, refused
from common.webhooks.sending import WITHIN_SECONDS, DeliveryResponse, post

ROUTING_KEY = "routing_key"
MOST_IN_DIGEST = 40


def notify(
    endpoint: WebhookEndpoint, events: Sequence[WebhookEvent], allowed: AllowedHosts
) -> DeliveryResponse:
    """Send the events as one message in the endpoint's format and language."""
    message = _together([message_of(event, endpoint.language) for event in events], endpoint.language)
    if endpoint.format == WebhookFormat.EMAIL:
        return _mail(endpoint.destination.removeprefix("mailto:"), message)
    url = endpoint.url
    further: dict[str, str] = {}
    if endpoint.format == WebhookFormat.PAGERDUTY:
        url, further = _without_key(url)
    answer = post(
        url,
        body=body_of(endpoint.format, message, **further),
        headers={"content-type": "application/json"},
        allowed=allowed,
    )
    return replace(answer, error=answer.error or refused(endpoint.format, answer.status, answer.body))


def _together(messages: Sequence[ChatMessage], language: str) -> ChatMessage:
    """Return one message that names all; the worst gives its tone, the latest its link."""
    if len(messages) == 1:
        return messages[0]
    worst = next(
        (one for tone in ("bad", "warn", "good") for one in messages if one.tone == tone), messages[0]
    )
    lines = [f"{one.title} {'; '.join(one.lines[:3])}" for one in messages[-MOST_IN_DIGEST:]]
    with translation.override(language):
        title = ngettext("%(number)s event", "%(number)s events", len(messages)) % {"number": len(messages)}
    return replace(messages[-1], title=title, lines=lines, tone=worst.tone, is_over=False)


def _without_key(url: str) -> tuple[str, dict[str, str]]:
    """Return PagerDuty's address and the routing key that its query names."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    key = query.pop(ROUTING_KEY, [""])[0]
    return urlunsplit(parts._replace(query=urlencode(query, doseq=True))), {ROUTING_KEY: key}


def _mail(to: str, message: ChatMessage) -> DeliveryResponse:
    began = time.monotonic()
    mail = EmailMessage()
    mail["Subject"] = f"Slipway: {' '.join(message.title.split())}"
    mail["From"], mail["To"] = settings.SLIPWAY_MAIL_FROM, to
    mail["Date"], mail["Message-ID"] = formatdate(), make_msgid(domain="slipway")
    mail.set_content(f"{message.text}\n\n{message.link}: {message.url}\n")
    status: int | None = 250
    error = ""
    try:
        _submit(mail)
    except (smtplib.SMTPException, OSError) as fault:
        code = getattr(fault, "smtp_code", None)
        status, error = (code if isinstance(code, int) else None), f"The mail server: {fault}"  # untranslated
    return DeliveryResponse(status, round((time.monotonic() - began) * 1000), error=error)


def _submit(mail: EmailMessage) -> None:
    """Hand the mail to the server of SLIPWAY_SMTP_URL. Raises what smtplib raises."""
    server = urlsplit(settings.SLIPWAY_SMTP_URL)
    is_tls = server.scheme == "smtps"
    context, host = ssl.create_default_context(), server.hostname or ""
    smtp = (
        smtplib.SMTP_SSL(host, server.port or 465, timeout=WITHIN_SECONDS, context=context)
        if is_tls
        else smtplib.SMTP(host, server.port or 25, timeout=WITHIN_SECONDS)
    )
    try:
        smtp.ehlo()
        if not is_tls and smtp.has_extn("starttls"):
            smtp.starttls(context=context)
            smtp.ehlo()
        if server.username:
            smtp.login(unquote(server.username), unquote(server.password or ""))
        smtp.send_message(mail)
    finally:
        # A server that took the mail and fails at its farewell must not get it again.
        with suppress(smtplib.SMTPException, OSError):
            smtp.quit()
