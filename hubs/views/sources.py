"""Where a model's versions come from on hubs: the sources, one of them, and a sync while it runs."""

from collections.abc import Sequence
from contextlib import suppress

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from common.actor import Actor
from common.errors import SlipwayError
from common.pages.access import or_404, signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, reason_of
from common.pages.listing import list_page
from hubs.auto_release import auto_release
from hubs.errors import SourceTaken
from hubs.forms import HubSourceForm, NewHubSourceForm, every_in_words
from hubs.models import HubSource, HubSync
from hubs.selectors import syncs
from hubs.selectors.transfers import transfers
from hubs.services import notices
from hubs.services import syncs as sync_services
from models_registry.models import Model
from models_registry.views.models import frame, visible_model

SORTS = {"began": "began_at", "state": "state"}


@require_safe
@signed_in
def hub_page(request: HttpRequest, name: str) -> HttpResponse:
    """Its sources and their syncs; asks again every second while one of them runs."""
    actor = of_request(request)
    model = visible_model(actor, name)
    sources = syncs.hub_source_cards(list(syncs.hub_sources(actor, model)))
    listing = list_page(
        request, transfers(HubSync, actor, model), sorts=SORTS, default_sort="-began", size=20
    )
    context = frame(actor, model) | {
        "sources": [(card, every_in_words(card.source.every_seconds)) for card in sources],
        "listing": listing,
        "is_moving": any(card.last_sync and card.last_sync.is_under_way for card in sources),
    }
    return page(request, "hubs/hub.html", context, parts=("listing",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_source(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    model = visible_model(actor, name)
    form = NewHubSourceForm(request.POST if request.method == "POST" else None, **_offered(actor, model))
    if form.is_bound and form.is_valid():
        try:
            source = sync_services.create_hub_source(actor=actor, model=model, **form.wishes())
            with suppress(SourceTaken):  # Its schedule was faster.
                sync_services.start_sync(actor=actor, source=source)
        except (SlipwayError, ValidationError) as error:
            blame(form, error)
        else:
            return done(
                request, _("%(source)s is followed, and synced now.") % {"source": source}, to=url_of(model)
            )
    context = frame(actor, model) | {"form": form}
    status = UNPROCESSABLE if form.is_bound else 200
    return page(request, "hubs/new_hub_source.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def source_page(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    actor = of_request(request)
    model = visible_model(actor, name)
    source = or_404(syncs.hub_source_of, model, pk)
    given = request.POST if request.method == "POST" else None
    form = HubSourceForm(given, source=source, **_offered(actor, model))
    if form.is_bound and form.is_valid():
        try:
            sync_services.change_hub_source(actor=actor, source=source, **form.wishes())
        except (SlipwayError, ValidationError) as error:
            blame(form, error)
        else:
            return done(request, _("Saved."), to=url_of(model))
    context = frame(actor, model) | {
        "form": form,
        "source": source,
        "notice_address": _notice_address(request, source),
    }
    status = UNPROCESSABLE if form.is_bound else 200
    return page(request, "hubs/hub_source.html", context, parts=("now",), status=status)


@require_POST
@signed_in
@refusals_at_the_form
def start_sync(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    actor = of_request(request)
    source = or_404(syncs.hub_source_of, visible_model(actor, name), pk)
    sync_services.start_sync(actor=actor, source=source)
    return done(request, _("%(source)s is being synced.") % {"source": source})


@require_POST
@signed_in
@refusals_at_the_form
def new_secret(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """Its answer is the one place where the secret is shown."""
    actor = of_request(request)
    model = visible_model(actor, name)
    source = or_404(syncs.hub_source_of, model, pk)
    context = frame(actor, model) | {
        "source": source,
        "secret": notices.new_notice_secret(actor=actor, source=source),
        "address": _notice_address(request, source),
    }
    answer = page(request, "hubs/hub_notice_secret.html", context, status=201)
    answer["Cache-Control"] = "no-store"
    return answer


@require_POST
@signed_in
@refusals_at_the_form
def delete_source(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    actor = of_request(request)
    model = visible_model(actor, name)
    source = or_404(syncs.hub_source_of, model, pk)
    sync_services.delete_hub_source(actor=actor, source=source, reason=reason_of(request))
    return done(
        request,
        _("%(source)s is no longer followed; its versions stay.") % {"source": source},
        to=url_of(model),
    )


def _offered(actor: Actor, model: Model) -> dict[str, Sequence[str]]:
    """Return the services and plans that new versions may be released with."""
    return {"services": auto_release().services(actor, model), "plans": auto_release().plans(actor, model)}


def _notice_address(request: HttpRequest, source: HubSource) -> str:
    return request.build_absolute_uri(reverse("hub-notice", args=[source.pk]))


def url_of(model: Model) -> str:
    return reverse("model-hub", args=[model.name])
