"""Webhooks: who is sent what, its secret, tests and replays. `accounts.reconcilers` sends."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, time, timedelta
from typing import Any, NamedTuple
from uuid import uuid4
from zoneinfo import available_timezones

import orjson
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.utils.translation import gettext as _

from accounts import selectors
from accounts.errors import OutOfScope
from accounts.models import Team, User, WebhookDelivery, WebhookEndpoint, WebhookEvent
from accounts.services.rights import require_everywhere, require_for_owner
from accounts.states import OPEN_DELIVERIES, WEBHOOK_TEST, DeliveryState, LeastSeverity, Right, WebhookFormat
from common import clock, events
from common.actor import Actor
from common.audit import record
from common.errors import Conflict, Invalid
from common.reconcile import Due, kernel
from common.sealed import seal, unseal
from common.webhooks import catalogue, signing
from common.webhooks.destination import AllowedHosts, parse
from common.webhooks.sending import DeliveryResponse, post

PURPOSE = "webhook"
DISABLED = "webhook.disabled"
BOTH_SECRETS_FOR = timedelta(hours=24)
CHANGEABLE = frozenset(
    {
        "url",
        "description",
        "events",
        "teams",
        "severity",
        "enabled",
        "format",
        "language",
        "quiet_hours",
        "digest_minutes",
    }
)
LONGEST_DIGEST = 1_440
OWN_MAIL = "mailto:"
"""The URL of a person's endpoint for e-mail: it goes to the address of the account."""


class IssuedWebhook(NamedTuple):
    endpoint: WebhookEndpoint
    secret: str
    """Exists here and at whom it is shown to, once."""


def allowed_places() -> AllowedHosts:
    return AllowedHosts.of(settings.SLIPWAY_WEBHOOK_ALLOWED_HOSTS)


def announce(event_type: str, **ids: Any) -> None:
    """Note that it happened, inside its transaction; it is sent to whom it concerns after the commit."""
    if not WebhookEndpoint.objects.filter(enabled=True).exists():
        return
    now = clock.now()
    event = WebhookEvent.objects.create(
        key=_new_key(), type=event_type, ids=ids, occurred_at=now, next_at=now
    )
    events.publish(Due(kernel.kind_of(event), event.pk))


def create_webhook(
    *,
    actor: Actor,
    url: str = "",
    team: Team | None = None,
    person: User | None = None,
    events: Collection[str] = (),
    description: str = "",
    **options: Any,
) -> IssuedWebhook:
    """Create a webhook of a team, of a person or of the whole installation. `options`: `teams`, `severity`,
    `format`, `language`, `quiet_hours`, `digest_minutes`. Raises NotAllowed, Invalid."""
    endpoint = WebhookEndpoint(team=team, person=person)
    if team and person:
        raise Invalid(fields={"person": [_("Name a team or a person, not both.")]})
    _require(actor, endpoint)
    if person is not None and not person.is_person:
        raise Invalid(fields={"person": [_("Only people have webhooks of their own.")]})
    secret = signing.new_secret()
    endpoint = WebhookEndpoint(
        team=team,
        person=person,
        url=_plain_address(person, url, options.get("format", "")),
        description=description.strip(),
        events=sorted(set(events)),
        sealed_secret=seal(secret, purpose=PURPOSE),
        created_by=actor.name,
        **options,
    )
    _validate(endpoint)
    with transaction.atomic():
        endpoint.save(force_insert=True)
        _record(actor, "webhook.create", endpoint, detail=_shown(endpoint))
    return IssuedWebhook(endpoint, secret)


def change_webhook(
    *, actor: Actor, endpoint: WebhookEndpoint, expected: int | None = None, reason: str = "", **changes: Any
) -> WebhookEndpoint:
    """Change what is CHANGEABLE; enabling forgets its failures, disabling gives up
    what was still to be sent. Raises NotAllowed, Stale, Invalid."""
    _require(actor, endpoint)
    if unknown := sorted(set(changes) - CHANGEABLE):
        raise Invalid(fields={name: [_("This cannot be changed.")] for name in unknown})
    if "events" in changes:
        changes["events"] = sorted(set(changes["events"]))
    if "teams" in changes:
        changes["teams"] = sorted(set(changes["teams"]))
    if changes.keys() & {"url", "format"}:
        own_format, url = changes.get("format", endpoint.format), changes.get("url", "")
        if plain := _plain_address(endpoint.person, url, own_format):
            changes["url"] = plain
    kept = {name: getattr(endpoint, name) for name in ("team", "person", *CHANGEABLE)}
    changed = WebhookEndpoint(**kept | changes)
    _validate(changed, fields=set(changes))
    was_enabled = endpoint.enabled
    columns = dict(changes)
    if "enabled" in changes:
        why = reason or f"Disabled by {actor.name}."  # untranslated
        columns["disabled_why"] = "" if changes["enabled"] else why
    if changes.get("enabled") or "url" in changes:
        columns |= {"failures": 0, "failing_since": None, "quiet_until": None}
    with transaction.atomic():
        endpoint.change(expected=expected, **columns)
        if was_enabled and not endpoint.enabled:
            give_up_open(endpoint, why=endpoint.disabled_why, now=clock.now())
            kernel.interrupt(endpoint)
        else:
            # A wish for a new address: it does not wait in the lane of the former one, which may hang.
            wishes: dict[str, Any] = {"url": endpoint.url} if "url" in changes else {}
            kernel.wake(endpoint, **wishes)
        _record(actor, "webhook.change", endpoint, reason=reason, detail=_shown(endpoint))
    return endpoint


def delete_webhook(
    *, actor: Actor, endpoint: WebhookEndpoint, expected: int | None = None, reason: str = ""
) -> None:
    """Delete an endpoint with its history. Raises NotAllowed, Stale."""
    _require(actor, endpoint)
    with transaction.atomic():
        endpoint.change(expected=expected)
        _record(actor, "webhook.delete", endpoint, reason=reason, detail=_shown(endpoint))
        WebhookEndpoint.objects.filter(pk=endpoint.pk).delete()


def rotate_webhook_secret(*, actor: Actor, endpoint: WebhookEndpoint, reason: str = "") -> IssuedWebhook:
    """A new secret; for a day what is sent carries the former one's signature, too. Raises NotAllowed."""
    _require(actor, endpoint)
    secret = signing.new_secret()
    with transaction.atomic():
        endpoint.change(
            sealed_secret=seal(secret, purpose=PURPOSE),
            sealed_former_secret=endpoint.sealed_secret,
            former_secret_until=clock.now() + BOTH_SECRETS_FOR,
        )
        _record(actor, "webhook.rotate_secret", endpoint, reason=reason)
    return IssuedWebhook(endpoint, secret)


def send_test(*, actor: Actor, endpoint: WebhookEndpoint) -> WebhookDelivery:
    """Send a `webhook.test` now, whatever it wants. Raises NotAllowed, Conflict while it is disabled."""
    _require(actor, endpoint)
    now = clock.now()
    data = {"webhook_id": endpoint.pk, "by": actor.name}
    with transaction.atomic():
        _hurry(endpoint)
        event = WebhookEvent.objects.create(
            key=_new_key(),
            type=WEBHOOK_TEST,
            ids=data,
            occurred_at=now,
            body=written_out(WEBHOOK_TEST, now, data),
        )
        delivery = WebhookDelivery.objects.create(endpoint=endpoint, event=event, due_at=now)
        _record(actor, "webhook.test", endpoint)
    return delivery


def replay_delivery(*, actor: Actor, delivery: WebhookDelivery) -> WebhookDelivery:
    """Send it again, the same bytes under the same `webhook-id`.

    Raises NotAllowed, Conflict while it is still on its way or its endpoint is disabled.
    """
    endpoint = delivery.endpoint
    _require(actor, endpoint)
    with transaction.atomic():
        _hurry(endpoint)
        closed = WebhookDelivery.objects.filter(pk=delivery.pk).exclude(state__in=OPEN_DELIVERIES)
        if not closed.update(state=DeliveryState.PENDING, tries=0, due_at=clock.now()):
            raise Conflict(_("It is still queued. Wait until it is delivered or given up."))
        _record(
            actor, "webhook.replay", endpoint, detail={"delivery": delivery.pk, "event": delivery.event.key}
        )
    delivery.refresh_from_db()
    return delivery


def signed_post(
    endpoint: WebhookEndpoint, *, message_id: str, body: bytes, now: datetime
) -> DeliveryResponse:
    """Send a body to the endpoint, signed by its secrets in force. Raises CannotUnseal, ValueError."""
    sealed = [endpoint.sealed_secret]
    if endpoint.former_secret_until and endpoint.former_secret_until > now:
        sealed.append(endpoint.sealed_former_secret)
    signed = signing.headers(
        [unseal(one, purpose=PURPOSE) for one in sealed],
        message_id=message_id,
        timestamp=int(now.timestamp()),
        body=body,
    )
    headers = {"content-type": "application/json", **signed}
    return post(endpoint.url, body=body, headers=headers, allowed=allowed_places())


def give_up_open(endpoint: WebhookEndpoint, *, why: str, now: datetime) -> None:
    """Give up open deliveries with a reason, inside the transaction that disables the endpoint."""
    give_up(WebhookDelivery.objects.filter(endpoint=endpoint, state__in=OPEN_DELIVERIES), why=why, now=now)


def give_up(deliveries: Iterable[WebhookDelivery], *, why: str, now: datetime) -> None:
    for delivery in list(deliveries):
        entry = {"at": now.isoformat(), "status": None, "milliseconds": 0, "answer": "", "error": why}
        WebhookDelivery.objects.filter(pk=delivery.pk).update(
            state=DeliveryState.GIVEN_UP, history=[*delivery.history, entry]
        )


def written_out(event_type: str, occurred_at: datetime, data: Mapping[str, Any]) -> str:
    """The body of an event, as JSON."""
    said = {"type": event_type, "timestamp": occurred_at.isoformat(), "data": dict(data)}
    return orjson.dumps(said, default=str).decode()


def _require(actor: Actor, endpoint: WebhookEndpoint) -> None:
    """Require the right over a team's endpoint or the installation's; a person's own is theirs, and
    administrators'. Raises NotAllowed, OutOfScope."""
    if endpoint.person_id is None:
        require_for_owner(actor, Right.WEBHOOKS_WRITE, endpoint.team)
    elif endpoint.person_id != actor.user_id:
        require_everywhere(actor, Right.WEBHOOKS_WRITE)
    elif not selectors.may_for_oneself(actor, Right.WEBHOOKS_WRITE):
        raise OutOfScope(
            _(
                "This token may not change webhooks of its owner. Use one that has the scope webhooks.write "
                "and is not limited to a team or to services."
            )
        )


def _plain_address(person: User | None, url: str, message_format: str) -> str:
    """Return the URL as it is kept: that of a person's e-mail names no address but the account's."""
    is_own = person is not None and message_format == WebhookFormat.EMAIL
    return OWN_MAIL if is_own and url in ("", f"mailto:{person.email}") else url  # type: ignore[union-attr]


def _hurry(endpoint: WebhookEndpoint) -> None:
    """A person waits for what it is sent next: no pause is kept. Raises Conflict while it is disabled."""
    if not kernel.wake(endpoint, where={"enabled": True}, quiet_until=None):
        raise Conflict(_("This webhook is disabled. Enable it first."))
    endpoint.quiet_until = None


def _validate(endpoint: WebhookEndpoint, *, fields: Collection[str] = CHANGEABLE) -> None:
    faults: dict[str, list[str]] = {}
    if {"url", "format"} & set(fields):
        faults |= _faults_of_address(endpoint)
    if "teams" in fields and (wrong := _faults_of_teams(endpoint)):
        faults["teams"] = [wrong]
    if endpoint.severity not in LeastSeverity.values:
        faults["severity"] = [_("Choose one of: %(known)s.") % {"known": ", ".join(LeastSeverity.values)}]
    if endpoint.format not in WebhookFormat.values:
        faults["format"] = [_("Choose one of: %(known)s.") % {"known": ", ".join(WebhookFormat.values)}]
    if endpoint.language not in dict(settings.LANGUAGES):
        faults["language"] = [_("Choose one of: %(known)s.") % {"known": ", ".join(dict(settings.LANGUAGES))}]
    if not 0 <= endpoint.digest_minutes <= LONGEST_DIGEST:
        faults["digest_minutes"] = [_("Give between 0 and 1440 minutes.")]
    elif endpoint.digest_minutes and endpoint.format == WebhookFormat.STANDARD:
        faults["digest_minutes"] = [_("Only messages for people can be put together: choose their format.")]
    if endpoint.quiet_hours and not _is_window(endpoint.quiet_hours):
        faults["quiet_hours"] = [
            _("Give from and until as times such as 22:00, and a time zone such as Europe/Paris.")
        ]
    known = set(catalogue.known())
    if "events" in fields and (unknown := sorted(set(endpoint.events) - known)):
        faults["events"] = [
            _("Unknown: %(unknown)s. Known: %(known)s.")
            % {"unknown": ", ".join(unknown), "known": ", ".join(sorted(known))}
        ]
    if "description" in fields and len(endpoint.description) > 300:
        faults["description"] = [_("Use at most 300 characters.")]
    if faults:
        raise Invalid(fields=faults)


def _faults_of_address(endpoint: WebhookEndpoint) -> dict[str, list[str]]:
    if endpoint.format != WebhookFormat.EMAIL:
        try:
            parse(endpoint.url, allowed_places())
        except Invalid as error:
            return error.fields
        return {}
    if endpoint.person is not None and not endpoint.person.email:
        return {"format": [_("Your account has no e-mail address. Set it under Account first.")]}
    if endpoint.person is not None and endpoint.url != OWN_MAIL:
        return {"url": [_("E-mail goes to the address of your account. Leave the URL empty.")]}
    if endpoint.person is not None:
        return _faults_of_mail()
    try:
        validate_email(endpoint.url.removeprefix("mailto:"))
    except ValidationError:
        return {"url": [_("Give an e-mail address such as mailto:oncall@example.org.")]}
    if not endpoint.url.startswith("mailto:"):
        return {"url": [_("Give an e-mail address such as mailto:oncall@example.org.")]}
    return _faults_of_mail()


def _faults_of_mail() -> dict[str, list[str]]:
    if settings.SLIPWAY_SMTP_URL:
        return {}
    return {"format": [_("No mail server is set: SLIPWAY_SMTP_URL names it.")]}


def _faults_of_teams(endpoint: WebhookEndpoint) -> str:
    if endpoint.teams and endpoint.team is not None:
        return _("A team's webhook is sent that team's events alone. Leave this empty.")
    known = Team.objects.all()
    if endpoint.person is not None and not endpoint.person.is_superuser:
        known = known.filter(memberships__user=endpoint.person)
    unknown = sorted(set(endpoint.teams) - set(known.values_list("name", flat=True)))
    return _("No such teams, or not yours: %(unknown)s.") % {"unknown": ", ".join(unknown)} if unknown else ""


def _is_window(quiet_hours: Any) -> bool:
    try:
        for name in ("from", "until"):
            time.fromisoformat(quiet_hours[name])
        return set(quiet_hours) == {"from", "until", "zone"} and quiet_hours["zone"] in available_timezones()
    except (KeyError, TypeError, ValueError):
        return False


def _record(
    actor: Actor,
    action: str,
    endpoint: WebhookEndpoint,
    *,
    reason: str = "",
    detail: Mapping[str, Any] | None = None,
) -> None:
    record(actor, action, subject=endpoint, reason=reason, detail=detail, team_id=endpoint.team_id)


def _shown(endpoint: WebhookEndpoint) -> dict[str, Any]:
    return {
        "host": endpoint.host,
        "format": endpoint.format,
        "events": endpoint.events,
        "enabled": endpoint.enabled,
    }


def _new_key() -> str:
    return f"msg_{uuid4().hex}"
