"""The list of models, one of them, a new one, its settings and its card."""

from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may, may_everywhere
from accounts.states import Right
from common.actor import Actor
from common.errors import SlipwayError
from common.pages.access import or_404, signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, reason_of
from common.pages.listing import list_page
from model_store.errors import BlobMissing, StoreUnavailable
from models_registry.facts import readme
from models_registry.filters import AnyVersionFilter, ModelFilter, VersionFilter
from models_registry.forms.models import ModelChangeForm, NewModelForm
from models_registry.models import Model, Version
from models_registry.selectors import aliases, catalogue
from models_registry.selectors import uploads as upload_selectors
from models_registry.selectors import versions as version_selectors
from models_registry.services import catalogue as catalogue_services
from models_registry.states import VersionState

SORTS = {
    "name": "name",
    "team": "team__name",
    "size": "ready_bytes",
    "newest": "newest_at",
    "created": "created_at",
}
MODELS_ON_A_PAGE, VERSIONS_ON_A_PAGE = 20, 15
"""Of more, most of the time goes into rows below the fold."""
ANY_VERSION_SORTS = {"model": "model__name", "size": "size_bytes", "created": "created_at"}
VERSION_SORTS = {"number": "number", "size": "size_bytes", "created": "created_at", "state": "state"}


@require_safe
@signed_in
def model_list(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    listing = list_page(
        request,
        catalogue.models(actor),
        sorts=SORTS,
        default_sort="name",
        filters=ModelFilter,
        size=MODELS_ON_A_PAGE,
    )
    context = {
        "listing": listing,
        "cards": catalogue.cards(listing.rows),
        "may_create": may(actor, Right.MODELS_WRITE),
        "may_see_store": may_everywhere(actor, Right.FLEET_OPERATE),
    }
    return page(request, "models_registry/models.html", context, parts=("listing",))


@require_safe
@signed_in
def version_search(request: HttpRequest) -> HttpResponse:
    """The versions of all models that the person may see."""
    listing = list_page(
        request,
        version_selectors.any_versions(of_request(request)),
        sorts=ANY_VERSION_SORTS,
        default_sort="-created",
        filters=AnyVersionFilter,
        size=MODELS_ON_A_PAGE,
    )
    context = {"listing": listing, "cards": version_selectors.version_cards(listing.rows)}
    return page(request, "models_registry/versions.html", context, parts=("listing",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_model(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    form = NewModelForm(request.POST if request.method == "POST" else None, actor=actor)
    if form.is_bound and form.is_valid():
        try:
            model = catalogue_services.create_model(actor=actor, **form.cleaned_data)
        except (SlipwayError, ValidationError) as error:
            blame(form, error)
        else:
            return done(
                request,
                _("%(model)s is there. Import its first version.") % {"model": model.name},
                to=url_of(model),
            )
    status = UNPROCESSABLE if form.is_bound else 200
    return page(request, "models_registry/new_model.html", {"form": form}, status=status)


@require_safe
@signed_in
def model_page(request: HttpRequest, name: str) -> HttpResponse:
    """Its versions, newest first; asks again every second while one of them is being imported."""
    actor = of_request(request)
    model = visible_model(actor, name)
    listing = list_page(
        request,
        version_selectors.versions(model),
        sorts=VERSION_SORTS,
        default_sort="-number",
        filters=VersionFilter,
        size=VERSIONS_ON_A_PAGE,
    )
    shown = frame(actor, model)
    cards = version_selectors.version_cards(listing.rows, aliases=shown["aliases"])
    uploads = upload_selectors.upload_cards(list(upload_selectors.uploads(actor, model, are_live=True)))
    context = shown | {
        "uploads": uploads,
        "push_command": push_command(model),
        "listing": listing,
        "cards": cards,
        "is_moving": bool(uploads) or any(is_moving(card.version) for card in cards),
        "all_archived": not cards and version_selectors.versions(model).exists(),
    }
    return page(request, "models_registry/model.html", context, parts=("listing",))


def push_command(model: Model) -> str:
    """Return the command that makes a version of a directory on somebody's machine."""
    url = settings.SLIPWAY_PUBLIC_URL
    return f"slipway --url {url} models push DIRECTORY --model {model.name}"  # untranslated


def frame(actor: Actor, model: Model) -> dict[str, Any]:
    """Return the context that every page of one model shares."""
    return {
        "model": model,
        "may_write": may(actor, Right.MODELS_WRITE, model.team_id),
        "aliases": aliases.aliases(model),
    }


@require_safe
@signed_in
def model_card(request: HttpRequest, name: str) -> HttpResponse:
    """The card of the newest ready version, or of `?version=`."""
    actor = of_request(request)
    model = visible_model(actor, name)
    ready = Version.objects.ready().filter(model=model).select_related("model").defer("config", "scan")
    versions = list(ready.order_by("-number")[:200])
    wanted = request.GET.get("version", "")
    version = next((one for one in versions if one.name == wanted), versions[0] if versions else None)
    context = frame(actor, model) | {"versions": versions, "version": version} | card_of(version)
    return page(request, "models_registry/card.html", context, parts=("card",))


def card_of(version: Version | None) -> dict[str, Any]:
    """`card`, and `card_problem` where it cannot be read."""
    try:
        return {"card": readme.card_of(version) if version else None, "card_problem": ""}
    except (BlobMissing, StoreUnavailable) as error:
        return {"card": None, "card_problem": str(error)}


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def model_settings(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    model = visible_model(actor, name)
    initial = {"task": model.task, "description": model.description, "revision": model.revision}
    form = ModelChangeForm(
        request.POST if request.method == "POST" else None,
        initial=initial | {"protected_aliases": "\n".join(model.protected_aliases)},
        may_protect=may(actor, Right.ALIASES_PROTECTED, model.team_id),
    )
    if form.is_bound and form.is_valid():
        given = form.wishes()
        try:
            catalogue_services.change_model(actor=actor, model=model, expected=given.pop("revision"), **given)
        except (SlipwayError, ValidationError) as error:
            blame(form, error)
        else:
            return done(request, _("Saved."), to=url_of(model))
    context = frame(actor, model) | {"form": form}
    status = UNPROCESSABLE if form.is_bound else 200
    return page(request, "models_registry/model_settings.html", context, status=status)


@require_POST
@signed_in
@refusals_at_the_form
def delete_model(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    model = visible_model(actor, name)
    catalogue_services.delete_model(actor=actor, model=model, reason=reason_of(request))
    return done(request, _("%(name)s is deleted.") % {"name": name}, to="/models/")


def visible_model(actor: Actor, name: str) -> Model:
    """Raises Http404."""
    return or_404(catalogue.model_named, actor, name)


def url_of(model: Model) -> str:
    return f"/models/{model.name}/"


def is_moving(version: Version) -> bool:
    return version.state == VersionState.IMPORTING and version.stuck_at is None and not version.is_paused
