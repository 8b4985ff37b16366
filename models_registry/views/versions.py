"""One version, a new one, and what people do with it."""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from common.errors import Missing, SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form, refused
from common.pages.forms import blame, first_fault
from models_registry import comparison, selectors, services
from models_registry.forms import ImportForm, ReasonForm
from models_registry.models import Model, Version
from models_registry.views.models import frame, is_moving, visible_model

FILES_SHOWN = 500
MOVES_SHOWN = 50


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def import_version(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    model = visible_model(actor, name)
    form = ImportForm(request.POST if request.method == "POST" else None, initial=request.GET.dict())
    if form.is_bound and form.is_valid():
        try:
            version = services.import_version(actor=actor, model=model, **form.wishes())
        except (SlipwayError, ValidationError) as error:
            blame(form, error, {"lineage": "parent"})
        else:
            return done(request, f"{version} is being imported.", to=url_of(version))
    context = frame(actor, model) | {
        "form": form,
        "roots": settings.SLIPWAY_IMPORT_ROOTS,
        "hubs": settings.SLIPWAY_HUB_ENDPOINTS,
    }
    status = UNPROCESSABLE if form.is_bound else 200
    return page(request, "models_registry/import.html", context, status=status)


@require_safe
@signed_in
def version_page(request: HttpRequest, name: str, version: str) -> HttpResponse:
    actor = of_request(request)
    model = visible_model(actor, name)
    row = _version(model, version)
    files = list(selectors.version_files(row)[: FILES_SHOWN + 1])
    neighbours = Version.objects.ready().filter(model=model).exclude(pk=row.pk).order_by("-number")
    context = frame(actor, model) | {
        "version": row,
        "card": selectors.version_card(row),
        "sync": selectors.hub_sync_behind(row),
        "is_moving": is_moving(row),
        "files": files[:FILES_SHOWN],
        "has_more_files": len(files) > FILES_SHOWN,
        "config": sorted(comparison.flattened(row.config).items()),
        "moves": list(selectors.version_moves(row).order_by("-pk")[:MOVES_SHOWN]),
        "lineage": sorted(comparison.flattened(row.lineage).items()),
        "compare_with": neighbours.values_list("name", flat=True).first(),
    }
    return page(request, "models_registry/version.html", context, parts=("now",))


Wish = Callable[..., Any]
WISHES: dict[str, tuple[Wish, str]] = {
    "retry": (services.retry_import, "{version} is being imported again."),
    "cancel": (services.cancel_import, "The import of {version} is cancelled."),
    "delete": (services.delete_version, "{version} is deleted."),
}


@require_POST
@signed_in
@refusals_at_the_form
def act(request: HttpRequest, name: str, version: str, wish: str) -> HttpResponse:
    if wish not in WISHES:
        raise Http404
    actor = of_request(request)
    row = _version(visible_model(actor, name), version)
    form = ReasonForm(request.POST)
    form.fields["reason"].required = wish == "delete"
    if not form.is_valid():
        return refused(request, first_fault(form))
    service, words = WISHES[wish]
    service(actor=actor, version=row, reason=form.cleaned_data["reason"])
    to = f"/models/{name}/" if wish == "delete" else None
    return done(request, words.format(version=row), to=to)


def _version(model: Model, reference: str) -> Version:
    try:
        return selectors.version_named(model, reference)
    except Missing as error:
        raise Http404(str(error)) from None


def url_of(version: Version) -> str:
    return f"/models/{version.model.name}/{version.name}/"
