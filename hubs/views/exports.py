"""Versions that are published elsewhere: all of a model's, a new one, and one while it runs."""

from collections.abc import Callable
from typing import Any

from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may
from accounts.states import Right
from common.actor import Actor
from common.errors import SlipwayError
from common.languages import Text
from common.pages.access import or_404, signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, filled, reason_of
from common.pages.listing import list_page
from hubs.forms import ExportForm, NewTokenForm
from hubs.models import Export
from hubs.selectors import exports
from hubs.services import exports as export_services
from hubs.states import ExportState
from models_registry.models import Model
from models_registry.views.models import frame, visible_model
from models_registry.views.versions import visible_version

SORTS = {"began": "began_at", "state": "state"}


@require_safe
@signed_in
def export_list(request: HttpRequest, name: str) -> HttpResponse:
    """Asks again every second while one of them runs."""
    actor = of_request(request)
    model = visible_model(actor, name)
    listing = list_page(request, exports.exports(actor, model), sorts=SORTS, default_sort="-began", size=20)
    context = _frame(actor, model) | {
        "listing": listing,
        "is_moving": any(_is_moving(export) for export in listing.rows),
    }
    return page(request, "hubs/exports.html", context, parts=("listing",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_export(request: HttpRequest, name: str, version: str) -> HttpResponse:
    actor = of_request(request)
    model = visible_model(actor, name)
    row = visible_version(model, version)
    form = ExportForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        try:
            export = export_services.start_export(actor=actor, version=row, **form.cleaned_data)
        except (SlipwayError, ValidationError) as error:
            blame(form, error)
        else:
            return done(
                request,
                _("%(row)s is on its way to %(target)s.") % {"row": row, "target": export.target},
                to=url_of(export),
            )
    warned = [one for one in row.scan.get("warnings", []) if one["kind"] == "secret"]
    context = _frame(actor, model) | {"version": row, "form": form, "secrets": warned}
    status = UNPROCESSABLE if form.is_bound else 200
    return page(request, "hubs/new_export.html", context, status=status)


@require_safe
@signed_in
def export_page(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    actor = of_request(request)
    model = visible_model(actor, name)
    export = or_404(exports.export_of, model, pk)
    context = _frame(actor, model) | {
        "export": export,
        "is_moving": _is_moving(export),
        "token_form": NewTokenForm(auto_id="retry_%s"),
    }
    return page(request, "hubs/export.html", context, parts=("now",))


Wish = Callable[..., Any]
WISHES: dict[str, tuple[Wish, Text]] = {
    "pause": (export_services.pause_export, "Paused."),
    "resume": (export_services.resume_export, gettext_lazy("It goes on.")),
    "cancel": (export_services.cancel_export, "Cancelled."),
    "retry": (export_services.retry_export, gettext_lazy("It begins again.")),
}


@require_POST
@signed_in
@refusals_at_the_form
def act(request: HttpRequest, name: str, pk: int, wish: str) -> HttpResponse:
    if wish not in WISHES:
        raise Http404
    actor = of_request(request)
    export = or_404(exports.export_of, visible_model(actor, name), pk)
    why = reason_of(request, is_demanded=False)
    given = filled(NewTokenForm(request.POST)).cleaned_data if wish == "retry" else {}
    service, words = WISHES[wish]
    service(actor=actor, export=export, reason=why, **given)
    return done(request, words)


def _frame(actor: Actor, model: Model) -> dict[str, Any]:
    return frame(actor, model) | {"may_export": may(actor, Right.MODELS_EXPORT, model.team_id)}


def _is_moving(export: Export) -> bool:
    return export.state == ExportState.SENDING and export.stuck_at is None


def url_of(export: Export) -> str:
    return reverse("export", args=[export.version.model.name, export.pk])
