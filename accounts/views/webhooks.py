"""Webhooks: who is told of what, what was sent, and what came of it."""

from datetime import datetime
from typing import cast

import orjson
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts import actors, selectors
from accounts.filters import DeliveryFilter
from accounts.forms import NewWebhookForm, OwnWebhookForm, WebhookForm
from accounts.models import User, WebhookDelivery, WebhookEndpoint
from accounts.services import webhooks
from accounts.services.webhooks import IssuedWebhook
from accounts.states import Right, WebhookFormat
from accounts.views.new import NewPage
from common.actor import Actor
from common.audit import MAX_REASON
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, reason_of
from common.pages.listing import list_page

NEW_WEBHOOK = NewPage(
    gettext_lazy("New webhook"),
    room=gettext_lazy("Webhooks"),
    room_url="/settings/webhooks/",
    submit=gettext_lazy("Create webhook"),
    who=gettext_lazy(
        "Admins of a team make its webhooks. One of your own sends you the events of your teams."
    ),
)
NEW_OWN_WEBHOOK = NewPage(
    gettext_lazy("New webhook of your own"),
    room=gettext_lazy("Webhooks"),
    room_url="/settings/webhooks/",
    submit=gettext_lazy("Create webhook"),
)
SORTS = {"url": "url", "team": "team__name", "delivered": "delivered_at", "created": "created_at"}
DELIVERY_SORTS = {"type": "event__type", "sent": "created_at"}


@require_safe
@signed_in
def webhook_list(request: HttpRequest) -> HttpResponse:
    actor = actors.of_request(request)
    listing = list_page(request, selectors.webhooks(actor), sorts=SORTS, default_sort="-created")
    context = {"listing": listing, "may_create": selectors.may(actor, Right.WEBHOOKS_WRITE)}
    return page(request, "accounts/webhooks.html", context, parts=("listing",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_webhook(request: HttpRequest) -> HttpResponse:
    actor = actors.of_request(request)
    form = NewWebhookForm(request.POST if request.method == "POST" else None, actor=actor)
    if not selectors.may(actor, Right.WEBHOOKS_WRITE):
        return NEW_WEBHOOK.with_form(request, form, is_open=False)
    return _created(request, form, NEW_WEBHOOK)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_own_webhook(request: HttpRequest) -> HttpResponse:
    person = cast("User", request.user)
    form = OwnWebhookForm(request.POST if request.method == "POST" else None, person=person)
    return _created(request, form, NEW_OWN_WEBHOOK, person=person)


def _created(
    request: HttpRequest, form: WebhookForm, empty: NewPage, *, person: User | None = None
) -> HttpResponse:
    """Create the webhook and show its secret, or the form with its faults."""
    if form.is_bound and form.is_valid():
        actor = actors.of_request(request)
        try:
            issued = webhooks.create_webhook(actor=actor, person=person, **form.cleaned_data)
        except (SlipwayError, ValidationError) as error:
            blame(form, error)
        else:
            if issued.endpoint.format == WebhookFormat.STANDARD:
                return _issued(request, issued)
            return done(request, _("Created. Send a test."), to=f"/settings/webhooks/{issued.endpoint.pk}/")
    return empty.with_form(request, form)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def webhook(request: HttpRequest, pk: int) -> HttpResponse:
    actor = actors.of_request(request)
    shown = _endpoint(actor, pk)
    quiet = shown.quiet_hours or {}
    initial = {name: getattr(shown, name) for name in ("revision", *webhooks.CHANGEABLE - {"enabled"})}
    if shown.url == webhooks.OWN_MAIL:
        initial["url"] = ""
    initial |= {f"quiet_{name}": quiet.get(name) for name in ("from", "until", "zone")}
    form = WebhookForm(request.POST if request.method == "POST" else None, initial=initial, endpoint=shown)
    if form.is_bound and form.is_valid():
        given = dict(form.cleaned_data)
        try:
            webhooks.change_webhook(actor=actor, endpoint=shown, expected=given.pop("revision"), **given)
        except (SlipwayError, ValidationError) as error:
            blame(form, error)
        else:
            return done(request, _("Saved."), to=f"/settings/webhooks/{pk}/")
    listing = list_page(
        request,
        selectors.deliveries(shown),
        sorts=DELIVERY_SORTS,
        default_sort="-sent",
        filters=DeliveryFilter,
    )
    context = {
        "shown": shown,
        "form": form,
        "listing": listing,
        "is_moving": any(delivery.is_open for delivery in listing.rows),
    }
    status = UNPROCESSABLE if form.is_bound else 200
    return page(request, "accounts/webhook.html", context, parts=("listing",), status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
@refusals_at_the_form
def rotate(request: HttpRequest, pk: int) -> HttpResponse:
    """Its answer is the one place where the new secret is shown."""
    actor = actors.of_request(request)
    shown = _endpoint(actor, pk)
    if request.method != "POST":
        return page(request, "accounts/webhook_rotate.html", {"shown": shown})
    reason = request.POST.get("reason", "").strip()[:MAX_REASON]
    return _issued(
        request, webhooks.rotate_webhook_secret(actor=actor, endpoint=shown, reason=reason), is_first=False
    )


@require_POST
@signed_in
@refusals_at_the_form
def test(request: HttpRequest, pk: int) -> HttpResponse:
    actor = actors.of_request(request)
    webhooks.send_test(actor=actor, endpoint=_endpoint(actor, pk))
    return done(request, _("A webhook.test event is queued."), tone="idle")


@require_POST
@signed_in
@refusals_at_the_form
def enable(request: HttpRequest, pk: int) -> HttpResponse:
    """Send again, or nothing more: `enabled` is `yes` or `no`."""
    actor = actors.of_request(request)
    shown = _endpoint(actor, pk)
    enabled = request.POST.get("enabled") == "yes"
    why = reason_of(request, is_demanded=not enabled)
    webhooks.change_webhook(actor=actor, endpoint=shown, reason=why, enabled=enabled)
    words = _("Enabled: events from now on are sent.") if enabled else _("Disabled: nothing more is sent.")
    return done(request, words, to=f"/settings/webhooks/{pk}/")


@require_POST
@signed_in
@refusals_at_the_form
def delete(request: HttpRequest, pk: int) -> HttpResponse:
    actor = actors.of_request(request)
    shown = _endpoint(actor, pk)
    webhooks.delete_webhook(actor=actor, endpoint=shown, reason=reason_of(request))
    return done(
        request, _("The webhook to %(place)s is deleted.") % {"place": shown.place}, to="/settings/webhooks/"
    )


@require_safe
@signed_in
def delivery(request: HttpRequest, pk: int, delivery_pk: int) -> HttpResponse:
    shown = _delivery(actors.of_request(request), pk, delivery_pk)
    body = orjson.dumps(orjson.loads(shown.event.body), option=orjson.OPT_INDENT_2).decode()
    tries = [tried | {"at": datetime.fromisoformat(tried["at"])} for tried in reversed(shown.history)]
    context = {"shown": shown, "endpoint": shown.endpoint, "body": body, "tries": tries}
    return page(request, "accounts/webhook_delivery.html", context, parts=("listing",))


@require_POST
@signed_in
@refusals_at_the_form
def replay(request: HttpRequest, pk: int, delivery_pk: int) -> HttpResponse:
    actor = actors.of_request(request)
    shown = webhooks.replay_delivery(actor=actor, delivery=_delivery(actor, pk, delivery_pk))
    return done(request, _("%(event)s is queued again.") % {"event": shown.event.type}, tone="idle")


def _issued(request: HttpRequest, issued: IssuedWebhook, *, is_first: bool = True) -> HttpResponse:
    context = {"shown": issued.endpoint, "secret": issued.secret, "is_first": is_first}
    answer = page(request, "accounts/webhook_issued.html", context, status=201)
    answer["Cache-Control"] = "no-store"
    return answer


def _endpoint(actor: Actor, pk: int) -> WebhookEndpoint:
    found: WebhookEndpoint | None = selectors.webhooks(actor).filter(pk=pk).first()
    if found is None:
        raise Http404(_("There is no such webhook, or none that you may see."))
    return found


def _delivery(actor: Actor, pk: int, delivery_pk: int) -> WebhookDelivery:
    found: WebhookDelivery | None = selectors.deliveries(_endpoint(actor, pk)).filter(pk=delivery_pk).first()
    if found is None:
        raise Http404(_("There is no such delivery; deliveries are kept for 30 days."))
    return found
