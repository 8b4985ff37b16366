"""Versions that are published elsewhere: all of a model's, a new one, and one while it runs."""

from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from accounts.actors import of_request
from accounts.selectors import may
from accounts.states import Right
from common.actor import Actor
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page
from common.pages.forms import blame
from common.pages.listing import list_page
from hubs.forms import ExportForm
from hubs.models import Export
from hubs.selectors.transfers import transfers
from hubs.services import exports as export_services
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
    listing = list_page(request, transfers(Export, actor, model), sorts=SORTS, default_sort="-began", size=20)
    context = _frame(actor, model) | {
        "listing": listing,
        "is_moving": any(export.is_under_way for export in listing.rows),
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


def _frame(actor: Actor, model: Model) -> dict[str, Any]:
    return frame(actor, model) | {"may_export": may(actor, Right.MODELS_EXPORT, model.team_id)}


def url_of(export: Export) -> str:
    return reverse("export", args=[export.version.model.name, export.pk])
